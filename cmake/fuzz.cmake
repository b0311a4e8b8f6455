# Fuzz targets: tests/fuzz/<name>_fuzz.cc becomes fuzz_<name> (codec_fuzz.cc one per codec), with libFuzzer, ASan and UBSan; `fuzz_all` builds them.
# Clang only (preset `fuzz`); tools/fuzz drives it, docs/fuzzing.md explains it.
#
# Nothing else is compiled: kernels, transports and runtimes stay out. Libraries from outside are linked statically, so that
# the programs run on a machine that has none. Rows of ctest fuzz each target for $TRIREME_FUZZ_SECONDS (60) seconds, in
# ./run test --full only; ./run test replays the corpora (tests/fuzz/corpus_test.cc).
option(TRIREME_FUZZ "Build tests/fuzz with libFuzzer" OFF)
if(NOT TRIREME_FUZZ)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "TRIREME_FUZZ needs clang: got ${CMAKE_CXX_COMPILER_ID}; configure with -DCMAKE_CXX_COMPILER=clang++")
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
enable_testing()
if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
  add_compile_options(-Wno-error)  # warnings are clang 14's and GCC's business
endif()

# What the targets reach, as two libraries: parsers that stand alone, and those that know every op. A pattern that ends in ** takes a whole folder.
set(TRIREME_FUZZ_parsers base/** codec/** cost/** tensor/** collective/** data/** io/** plan/** runtime/*.cc net/frame.cc)
set(TRIREME_FUZZ_models op/** graph/** model/** agree/table.cc job/job*.cc job/roles.cc)

function(trireme_add_fuzz_library name)
  set(sources "")
  foreach(pattern IN LISTS TRIREME_FUZZ_${name})
    set(mode GLOB)
    if(pattern MATCHES "\\*\\*$")
      set(mode GLOB_RECURSE)
      string(REPLACE "**" "*.cc" pattern "${pattern}")
    endif()
    file(${mode} found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/${pattern}")
    list(APPEND sources ${found})
  endforeach()
  add_library(trireme_fuzz_${name} STATIC ${sources})
  target_include_directories(trireme_fuzz_${name} PUBLIC "${CMAKE_SOURCE_DIR}")
  # "function" breaks coroutines in clang 14.
  target_compile_options(trireme_fuzz_${name} PUBLIC -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow
                         -fno-sanitize=function -fno-sanitize-recover=all -fno-omit-frame-pointer)
endfunction()

# Jobs are checked against the table of agreements; the rules themselves, with transports and all, stay out.
function(trireme_write_no_rules)
  set(table "${CMAKE_SOURCE_DIR}/trireme/agree/table.cc")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${table}")
  file(READ "${table}" text)
  string(REGEX MATCHALL "make_[a-z_]+" makers "${text}")
  list(REMOVE_DUPLICATES makers)
  set(source "#include \"trireme/agree/agree.h\"\nnamespace trireme::agree {\n")
  foreach(maker IN LISTS makers)
    string(APPEND source "std::unique_ptr<Agreement> ${maker}(const RuleContext&);\n"
                         "std::unique_ptr<Agreement> ${maker}(const RuleContext&) { return nullptr; }\n")
  endforeach()
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/no_rules.cc" CONTENT "${source}}  // namespace trireme::agree\n" @ONLY)
endfunction()

function(trireme_add_fuzz_targets)
  trireme_write_no_rules()
  add_library(trireme_fuzz_fmt STATIC "${CMAKE_SOURCE_DIR}/tests/fuzz/fmt_static.cc")
  trireme_add_fuzz_library(parsers)
  target_link_libraries(trireme_fuzz_parsers PUBLIC trireme_fuzz_fmt ${TRIREME_EXTERNAL_base} ${TRIREME_EXTERNAL_data}
                        "${TRIREME_ZLIB}" Threads::Threads)  # zlib again: libpng.a needs it too
  trireme_add_fuzz_library(models)
  target_sources(trireme_fuzz_models PRIVATE "${CMAKE_BINARY_DIR}/no_rules.cc")
  target_link_libraries(trireme_fuzz_models PUBLIC trireme_fuzz_parsers ${TRIREME_EXTERNAL_job})
  set(no_kernels "${CMAKE_SOURCE_DIR}/tests/fuzz/no_kernels.txt")
  target_compile_options(trireme_fuzz_models PRIVATE "-fsanitize-ignorelist=${no_kernels}"
                         "-fsanitize-coverage-ignorelist=${no_kernels}")
  # Headers are repaired by the targets of codecs, so that nothing has to be guessed: a third faster.
  file(GLOB codecs CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/codec/*.cc")
  set_property(SOURCE ${codecs} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize-coverage=trace-cmp)
  set_property(SOURCE "${CMAKE_SOURCE_DIR}/trireme/job/job.cc" APPEND PROPERTY COMPILE_OPTIONS
               "-fsanitize-coverage-ignorelist=${CMAKE_SOURCE_DIR}/tests/fuzz/no_guesses.txt")

  add_custom_target(fuzz_all)
  file(STRINGS "${CMAKE_SOURCE_DIR}/tests/fuzz/targets.txt" rows REGEX "^[a-z]")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/fuzz/targets.txt")
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^([a-z0-9_]+) (parsers|models) [0-9]+ ")
      message(FATAL_ERROR "tests/fuzz/targets.txt: expected 'name library max_len what', got '${row}'")
    endif()
    set(name ${CMAKE_MATCH_1})
    set(library ${CMAKE_MATCH_2})
    set(source ${name})
    if(name MATCHES "^codec_(.+)$")
      set(source codec)
    endif()
    add_executable(fuzz_${name} "${CMAKE_SOURCE_DIR}/tests/fuzz/${source}_fuzz.cc")
    if(source STREQUAL codec)
      target_compile_definitions(fuzz_${name} PRIVATE "FUZZ_CODEC=\"${CMAKE_MATCH_1}\"")
    endif()
    target_link_libraries(fuzz_${name} PRIVATE trireme_fuzz_${library})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer,address,undefined -static-libstdc++ -static-libgcc
                        -no-pie)  # a third of the size: no relocations of what sanitizers print
    add_dependencies(fuzz_all fuzz_${name})
    # What strangers send gets its full time; what this project writes itself (plans, graphs, frames) a third, and
    # codecs, which are many and fast, less.
    set(share 3)
    if(source STREQUAL codec)
      set(share 15)
    endif()
    if(name MATCHES "^(csv|idx|image|job|npy|safetensors)$")
      set(share 1)
    endif()
    add_test(NAME fuzz.${name} COMMAND "${CMAKE_SOURCE_DIR}/tools/fuzz" --no-build --build "${CMAKE_BINARY_DIR}" --jobs 1 --share ${share}
             --report "${CMAKE_BINARY_DIR}/reports/${name}.json" ${name})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS "fuzz;full" TIMEOUT 1800)
  endforeach()
endfunction()
cmake_language(DEFER CALL trireme_add_fuzz_targets)
