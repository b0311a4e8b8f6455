# Makes a C++ file of .cu files: cmake -DOUT=FILE -DROOT=FOLDER -P embed_texts.cmake A.cu B.cu ...
#
# A line `#pragma text kName` begins a text, which ends at the next such line or at the end of the file. It becomes
#     extern const char kName[] = "...";
# in namespace trireme::kernel::cuda. What stands before the first text of a file, or behind `#pragma text end`, is for
# readers and for the check of the file as C++; no program gets it. Comments on lines of their own and indentation are left
# out, lines keep their numbers: messages of the GPU's compiler name the .cu file.
cmake_minimum_required(VERSION 3.22)

# Semicolons and brackets are no lists here: the text stays one quoted string throughout.
function(embed path)
  file(READ "${path}" rest)
  file(RELATIVE_PATH name "${ROOT}" "${path}")
  string(REGEX REPLACE "\n[ ]+" "\n" rest "${rest}")
  string(REGEX REPLACE "\n//[^\n]*" "\n" rest "${rest}")
  set(marker "\n#pragma text ")
  string(LENGTH "${marker}" marker_length)
  set(line 1)
  string(FIND "${rest}" "${marker}" at)
  if(at EQUAL -1)
    return()
  endif()
  while(NOT at EQUAL -1)
    string(SUBSTRING "${rest}" 0 ${at} before)
    string(REGEX REPLACE "[^\n]" "" ends "${before}")
    string(LENGTH "${ends}" lines)
    math(EXPR line "${line} + ${lines} + 2")  # of the line behind the marker
    math(EXPR at "${at} + ${marker_length}")
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(FIND "${rest}" "\n" at)
    string(SUBSTRING "${rest}" 0 ${at} text)
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(FIND "${rest}" "${marker}" at)
    if(NOT text STREQUAL "end")
      if(NOT text MATCHES "^k[A-Za-z0-9]+Text$")
        math(EXPR line "${line} - 1")
        message(FATAL_ERROR "${name}:${line}: no name of a text: '${text}'; expected one such as kSumText, or end")
      endif()
      string(SUBSTRING "${rest}" 0 ${at} body)
      string(REGEX REPLACE "\n+$" "" body "${body}")
      string(APPEND made "extern const char ${text}[] = R\"cuda(\n#line ${line} \"${name}\"${body}\n)cuda\";\n")
    endif()
    math(EXPR line "${line} - 1")  # the rest begins at the end of the marker's line
  endwhile()
  set(made "${made}" PARENT_SCOPE)
endfunction()

set(made "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(CMAKE_ARGV${i} MATCHES "\\.cu$")
    embed("${CMAKE_ARGV${i}}")
  endif()
endforeach()
file(WRITE "${OUT}" "// Made of .cu files by cmake/embed_texts.cmake.\nnamespace trireme::kernel::cuda {\n${made}}\n")
