# Tests by glob. tests/<folder>/**/*_test.cc become test_<folder>, *_long_test.cc become test_<folder>_long
# (label "full"), other .cc files in the folder are shared by both. A folder named like a layer links that
# layer; any other links everything and may start the trireme binary (TRIREME_BINARY in its environment).
# tests/tools/*.sh run as they are; *_long_test.sh have the label "full".
find_package(GTest REQUIRED)
find_package(rapidcheck QUIET)

# Folders that test a layer under another name: TRIREME_LAYER_OF_<folder>.
set(TRIREME_LAYER_OF_fuzz train)  # what the targets read, and nothing of the commands
set(TRIREME_LAYER_OF_exec_cuda exec)
set(TRIREME_LAYER_OF_train_cuda start)
set(TRIREME_LAYER_OF_comm_cuda comm)

# Folders whose tests run long enough to be worth splitting over processes: TRIREME_SHARDS_<folder>.
set(TRIREME_SHARDS_system 6)
# Layers that the tests of a folder need beyond its own: TRIREME_TEST_LINKS_<folder>.
set(TRIREME_TEST_LINKS_eager exec)  # traced graphs are run
set(TRIREME_TEST_LINKS_model exec)  # small models are run
set(TRIREME_TEST_LINKS_train start apply)  # whole runs, and what is done with their models
set(TRIREME_TEST_LINKS_train_cuda apply)
# Files of other folders that the tests of a folder share: TRIREME_TEST_SOURCES_<folder>.
set(TRIREME_TEST_SOURCES_train_cuda train/small_jobs.cc train/tiny_jobs.cc train/trained_runs.cc)
set(TRIREME_TEST_SOURCES_comm_cuda comm/ranks.cc)
set(TRIREME_TEST_SOURCES_engine comm/ranks.cc comm/split_layers.cc train/tiny_jobs.cc)

# In a sanitizer build only the folders of its row in tools/sanitizers.txt are quick; the rest belong to --full. The build
# without oneDNN has the folders of its row only, and belongs to --full.
set(trireme_prefix "")
set(trireme_quick_folders "*")
set(trireme_test_timeout_s 600)
set(trireme_test_environment "TRIREME_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "TRIREME_BINARY=${CMAKE_BINARY_DIR}/trireme")
if(TRIREME_SUITE)
  set(trireme_prefix "${TRIREME_SUITE}.")
  set(trireme_test_timeout_s 1800)
  list(APPEND trireme_test_environment "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1"
       "ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1" "UBSAN_OPTIONS=print_stacktrace=1")
  set(trireme_sanitizers_file "${CMAKE_SOURCE_DIR}/tools/sanitizers.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${trireme_sanitizers_file}")
  file(STRINGS "${trireme_sanitizers_file}" row REGEX "^${TRIREME_SUITE}:")
  if(NOT row MATCHES "^[a-z]+: (.+)$")
    message(FATAL_ERROR "tools/sanitizers.txt: no row '${TRIREME_SUITE}: folders'")
  endif()
  string(REPLACE " " ";" trireme_quick_folders "${CMAKE_MATCH_1}")
  # Tests of a folder that only --full runs: `<suite>-full <folder>: <patterns of gtest>`.
  file(STRINGS "${trireme_sanitizers_file}" rows REGEX "^${TRIREME_SUITE}-full ")
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^[a-z]+-full ([a-z_]+): ([^ ]+)$")
      message(FATAL_ERROR "tools/sanitizers.txt: got '${row}', expected '${TRIREME_SUITE}-full <folder>: <patterns>'")
    endif()
    set(TRIREME_FULL_FILTER_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  endforeach()
endif()
add_custom_target(tests_quick)
add_dependencies(tests_quick trireme_cuda_texts)

# One run of a test program, with further arguments for it in ARGN.
function(trireme_add_entry entry program labels environment)
  add_test(NAME ${entry} COMMAND ${program} --gtest_brief=1 ${ARGN})
  set_tests_properties(${entry} PROPERTIES
    LABELS "${labels}"
    TIMEOUT ${trireme_test_timeout_s}
    ENVIRONMENT "${trireme_test_environment};${environment}")
endfunction()

function(trireme_add_test name folder label)
  if(TRIREME_SUITE STREQUAL "blas")
    if(NOT folder IN_LIST trireme_quick_folders)
      return()
    endif()
    set(label full)
  endif()
  if(NOT trireme_quick_folders STREQUAL "*" AND NOT folder IN_LIST trireme_quick_folders)
    set(label full)
  endif()
  add_executable(${name} ${ARGN})
  if(label STREQUAL "quick")
    add_dependencies(tests_quick ${name})
  else()
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    add_dependencies(everything ${name})
  endif()
  if(folder IN_LIST TRIREME_LAYERS)
    target_link_libraries(${name} PRIVATE trireme_${folder})
  elseif(DEFINED TRIREME_LAYER_OF_${folder})
    target_link_libraries(${name} PRIVATE trireme_${TRIREME_LAYER_OF_${folder}})
  else()
    target_link_libraries(${name} PRIVATE trireme_cli)
    if(TARGET trireme)
      add_dependencies(${name} trireme)
    endif()
  endif()
  foreach(layer IN LISTS TRIREME_TEST_LINKS_${folder})
    target_link_libraries(${name} PRIVATE trireme_${layer})
  endforeach()
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  if(TRIREME_HAVE_CUDA AND folder MATCHES "_cuda$")
    target_include_directories(${name} SYSTEM PRIVATE ${TRIREME_CUDA_INCLUDES})
  endif()
  target_compile_options(${name} PRIVATE -O1)  # compiled a quarter faster than at -O3; the library is as released
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
  if(TARGET rapidcheck)
    target_link_libraries(${name} PRIVATE rapidcheck rapidcheck_gtest)
  endif()

  trireme_compile_together(${name} tests)

  set(shards 1)
  if(DEFINED TRIREME_SHARDS_${folder})
    set(shards ${TRIREME_SHARDS_${folder}})
  endif()
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    set(entry ${trireme_prefix}${name})
    if(shards GREATER 1)
      set(entry ${trireme_prefix}${name}.${shard})
    endif()
    set(sharding "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
    if(label STREQUAL "quick" AND DEFINED TRIREME_FULL_FILTER_${folder})
      trireme_add_entry(${entry} ${name} "${folder};quick" "${sharding}" "--gtest_filter=-${TRIREME_FULL_FILTER_${folder}}")
      trireme_add_entry(${entry}.rest ${name} "${folder};full" "${sharding}" "--gtest_filter=${TRIREME_FULL_FILTER_${folder}}")
    else()
      trireme_add_entry(${entry} ${name} "${folder};${label}" "${sharding}")
    endif()
  endforeach()
endfunction()

file(GLOB_RECURSE trireme_test_sources CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}/tests" "${CMAKE_SOURCE_DIR}/tests/*.cc")
set(trireme_test_folders "")
foreach(source IN LISTS trireme_test_sources)
  if(source MATCHES "^([^/]+)/.*_test\\.cc$")
    list(APPEND trireme_test_folders ${CMAKE_MATCH_1})
  endif()
endforeach()
list(REMOVE_DUPLICATES trireme_test_folders)
list(REMOVE_ITEM trireme_test_folders conformance op_counts op_graphs op_records kernel_cuda mpirun net_mpi comm_mpi)
if(NOT TRIREME_HAVE_CUDA OR TRIREME_SUITE)
  list(REMOVE_ITEM trireme_test_folders exec_cuda train_cuda comm_cuda)
endif()
include(op_tests)
include(mpi_tests)

foreach(folder IN LISTS trireme_test_folders)
  set(sources ${trireme_test_sources})
  list(FILTER sources INCLUDE REGEX "^${folder}/")
  set(long ${sources})
  list(FILTER long INCLUDE REGEX "_long_test\\.cc$")
  set(short ${sources})
  list(FILTER short INCLUDE REGEX "_test\\.cc$")
  if(long)
    list(REMOVE_ITEM short ${long})
  endif()
  set(shared ${sources})
  list(FILTER shared EXCLUDE REGEX "_test\\.cc$")
  list(APPEND shared ${TRIREME_TEST_SOURCES_${folder}})
  list(FILTER shared EXCLUDE REGEX "^fuzz/")  # programs of their own: cmake/fuzz.cmake
  foreach(list IN ITEMS long short shared)
    list(TRANSFORM ${list} PREPEND "${CMAKE_SOURCE_DIR}/tests/")
  endforeach()
  if(short)
    trireme_add_test(test_${folder} ${folder} quick ${short} ${shared})
  endif()
  if(long)
    trireme_add_test(test_${folder}_long ${folder} full ${long} ${shared})
  endif()
endforeach()
if(TARGET test_comm)
  include(fake_nccl)
endif()

if(TRIREME_HAVE_CUDA AND NOT TRIREME_SUITE)
  include(gpu_emulator)
  trireme_add_emulated_test(test_exec_cuda exec_cuda)
  trireme_add_emulated_test(test_comm_cuda comm_cuda)
  add_dependencies(test_comm_cuda fake_nccl)
  add_dependencies(test_system gpu_emulator fake_nccl)
  trireme_add_emulated_test(test_train_cuda train_cuda)
endif()

if(NOT TRIREME_SUITE)
  file(GLOB trireme_script_tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/tools/*.sh")
  foreach(script IN LISTS trireme_script_tests)
    get_filename_component(name "${script}" NAME_WE)
    add_test(NAME tools_${name} COMMAND bash "${script}" WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    set_tests_properties(tools_${name} PROPERTIES LABELS "tools;quick" TIMEOUT ${trireme_test_timeout_s}
                         ENVIRONMENT "${trireme_test_environment}")
    if(name MATCHES "_long_test$")  # a machine of its own: hours, and alone
      set_tests_properties(tools_${name} PROPERTIES LABELS "tools;full" TIMEOUT 21600 RUN_SERIAL ON SKIP_RETURN_CODE 77)
    endif()
  endforeach()

  # What trireme/io writes, read by other people's code. Where their packages cannot be had the second row is listed as
  # skipped, with the reason; the first needs none.
  set(oracle_test python3 "${CMAKE_SOURCE_DIR}/tests/io/oracle_test.py" --writer $<TARGET_FILE:test_io>)
  add_test(NAME io_oracle_plain COMMAND ${oracle_test})
  add_test(NAME io_oracle_packages COMMAND ${oracle_test} --deps "${CMAKE_SOURCE_DIR}/build/deps")
  add_test(NAME io_checkpoint_command
           COMMAND python3 "${CMAKE_SOURCE_DIR}/tests/io/command_test.py" --writer $<TARGET_FILE:test_io>)
  set_tests_properties(io_oracle_plain io_oracle_packages io_checkpoint_command PROPERTIES LABELS "io;quick"
                       TIMEOUT ${trireme_test_timeout_s} ENVIRONMENT "${trireme_test_environment}" SKIP_RETURN_CODE 77)
endif()
