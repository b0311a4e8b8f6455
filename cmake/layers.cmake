# One library per row of tools/layers.txt: trireme_<folder>, made of every .cc file below trireme/<folder>/.
# A folder that is absent or has only headers is an INTERFACE library, so that the relation stays whole.
set(trireme_layers_file "${CMAKE_SOURCE_DIR}/tools/layers.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${trireme_layers_file}")
file(STRINGS "${trireme_layers_file}" trireme_rows REGEX "^[a-z]")
set(TRIREME_LAYERS "")

# Takes the sources of kernel/cuda out of the list: a library of objects with flags of its own. Kernels for GPUs are texts;
# what surrounds them runs once per node of a compiled graph. A build without CUDA has kernel/no_cuda instead.
function(trireme_split_cuda name)
  set(rest ${${name}})
  list(FILTER rest EXCLUDE REGEX "/kernel/(cuda|no_cuda)/")
  set(cuda ${${name}})
  if(TRIREME_HAVE_CUDA)
    list(FILTER cuda INCLUDE REGEX "/kernel/cuda/")
  else()
    list(FILTER cuda INCLUDE REGEX "/kernel/no_cuda/")
  endif()
  add_library(trireme_kernel_cuda OBJECT ${cuda})
  target_include_directories(trireme_kernel_cuda PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(trireme_kernel_cuda PRIVATE trireme_op)
  set(${name} ${rest} $<TARGET_OBJECTS:trireme_kernel_cuda> PARENT_SCOPE)
endfunction()

# What this build is, for `trireme version` and run.json. The log of HEAD changes with every commit and checkout.
set(trireme_commit unknown)
execute_process(COMMAND git -C "${CMAKE_SOURCE_DIR}" describe --always --dirty --tags --abbrev=8
                OUTPUT_VARIABLE trireme_described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(NOT failed AND trireme_described)
  set(trireme_commit "${trireme_described}")
  execute_process(COMMAND git -C "${CMAKE_SOURCE_DIR}" rev-parse --path-format=absolute --git-path logs/HEAD
                  OUTPUT_VARIABLE trireme_head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${trireme_head}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${trireme_head}")
  endif()
endif()
set_property(SOURCE "${CMAKE_SOURCE_DIR}/trireme/base/version.cc" APPEND PROPERTY COMPILE_DEFINITIONS
             TRIREME_VERSION="${PROJECT_VERSION}" TRIREME_COMMIT="${trireme_commit}")

foreach(row IN LISTS trireme_rows)
  if(NOT row MATCHES "^([a-z_]+):(.*)$")
    message(FATAL_ERROR "tools/layers.txt: expected 'folder: folders', got '${row}'")
  endif()
  set(folder ${CMAKE_MATCH_1})
  string(STRIP "${CMAKE_MATCH_2}" below)
  string(REPLACE " " ";" below "${below}")
  list(APPEND TRIREME_LAYERS ${folder})

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/${folder}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/trireme/cli/main\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/trireme/net/mpi/module/")  # a library of its own: cmake/mpi.cmake
  if(folder STREQUAL "kernel")
    trireme_split_cuda(sources)
  endif()
  if(sources)
    add_library(trireme_${folder} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(trireme_${folder} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(trireme_${folder} ${scope} "${CMAKE_SOURCE_DIR}")
  foreach(name IN LISTS below)
    if(NOT name IN_LIST TRIREME_LAYERS)
      message(FATAL_ERROR "tools/layers.txt: '${folder}' names '${name}', which has no row above it")
    endif()
    target_link_libraries(trireme_${folder} ${scope} trireme_${name})
  endforeach()
  target_link_libraries(trireme_${folder} ${scope} ${TRIREME_EXTERNAL_${folder}})
endforeach()

# Small rather than fast, so that the bundle stays small: reference kernels are many and plain (what must be fast is in
# kernel/), option parsing is large, and the rest runs once per job. A new folder is fast unless it is named here.
set(trireme_small_folders base cost collective op graph server agree parallel plan model io job lower prepare engine record apply train launch measure start cli
    eager kernel_cuda)
foreach(folder IN LISTS trireme_small_folders)
  get_target_property(kind trireme_${folder} TYPE)
  if(NOT kind STREQUAL "INTERFACE_LIBRARY")
    target_compile_options(trireme_${folder} PRIVATE $<$<CONFIG:Release>:-Os>)
  endif()
endforeach()
# These move bytes and wait: -O3 copies code for nothing. Sums in comm are loops over elements, as vectors.
foreach(folder IN ITEMS comm data exec net runtime)
  target_compile_options(trireme_${folder} PRIVATE $<$<CONFIG:Release>:-O2>)
endforeach()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(trireme_comm PRIVATE $<$<CONFIG:Release>:-fvect-cost-model=dynamic>)
endif()
if(TRIREME_SANITIZE)
  target_compile_options(trireme_op PRIVATE -O0)  # a third of the time to compile
endif()
foreach(folder IN LISTS TRIREME_LAYERS ITEMS kernel_cuda)
  trireme_compile_together(trireme_${folder} "")
endforeach()
if(TRIREME_HAVE_CUDA)
  trireme_embed_cuda_texts(trireme_kernel_cuda)
endif()

if(TRIREME_HAVE_CUDA)
  target_include_directories(trireme_kernel SYSTEM PRIVATE ${TRIREME_CUDA_INCLUDES})
  target_include_directories(trireme_kernel_cuda SYSTEM PRIVATE ${TRIREME_CUDA_INCLUDES})
endif()
if(TARGET trireme_onednn)
  get_target_property(kind trireme_kernel TYPE)
  if(NOT kind STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(trireme_kernel PRIVATE trireme_onednn)
    target_compile_definitions(trireme_kernel PRIVATE TRIREME_HAVE_ONEDNN=1)
  endif()
endif()

if(EXISTS "${CMAKE_SOURCE_DIR}/trireme/cli/main.cc")
  add_executable(trireme "${CMAKE_SOURCE_DIR}/trireme/cli/main.cc")
  target_link_options(trireme PRIVATE -Wl,--gc-sections)  # inline functions that nobody calls
  include(CheckLinkerFlag)
  check_linker_flag(CXX -Wl,-z,pack-relative-relocs TRIREME_PACKS_RELOCATIONS)  # glibc 2.36
  if(TRIREME_PACKS_RELOCATIONS)
    target_link_options(trireme PRIVATE -Wl,-z,pack-relative-relocs)
  endif()
  target_link_libraries(trireme PRIVATE trireme_cli)
endif()

include(mpi)
