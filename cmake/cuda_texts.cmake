# Kernels for GPUs are texts: .cu files of kernel/cuda beside the .cc files that use them (docs/decisions/012-cuda-files.md).
file(GLOB_RECURSE trireme_cuda_texts CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/kernel/cuda/*.cu")

# String constants of all texts, compiled into `target`.
function(trireme_embed_cuda_texts target)
  set(made "${CMAKE_BINARY_DIR}/cuda_texts.cc")
  set(script "${CMAKE_SOURCE_DIR}/cmake/embed_texts.cmake")
  add_custom_command(OUTPUT "${made}" VERBATIM COMMENT "Embedding CUDA texts"
                     COMMAND "${CMAKE_COMMAND}" "-DOUT=${made}" "-DROOT=${CMAKE_SOURCE_DIR}/trireme/kernel/cuda" -P "${script}"
                             ${trireme_cuda_texts}
                     DEPENDS ${trireme_cuda_texts} "${script}")
  target_sources(${target} PRIVATE "${made}")
  set_source_files_properties("${made}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# Every file is read as C++ behind cmake/cuda_words.h, so that a mistake shows in every build, without a GPU and without CUDA.
# One command per folder: starting more of them would take longer than the files do.
set(trireme_cuda_words "${CMAKE_SOURCE_DIR}/cmake/cuda_words.h")
set(stamps "")
if(NOT TRIREME_SANITIZE AND NOT TRIREME_FUZZ)
  foreach(path IN LISTS trireme_cuda_texts)
    cmake_path(GET path PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    list(APPEND folders ${folder})
    list(APPEND texts_of_${folder} "${path}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    set(stamp "${CMAKE_BINARY_DIR}/cuda_texts_${folder}.read")
    add_custom_command(OUTPUT "${stamp}" VERBATIM COMMENT "Reading CUDA texts of ${folder} as C++"
                       COMMAND "${CMAKE_CXX_COMPILER}" -x c++ -std=c++17 -w -fsyntax-only "-I${CMAKE_SOURCE_DIR}" -include
                               "${trireme_cuda_words}" ${texts_of_${folder}}
                       COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
                       DEPENDS ${trireme_cuda_texts} "${trireme_cuda_words}" "${CMAKE_SOURCE_DIR}/tests/gpu_emulator/words.h")
    list(APPEND stamps "${stamp}")
  endforeach()
endif()
add_custom_target(trireme_cuda_texts ALL DEPENDS ${stamps})
