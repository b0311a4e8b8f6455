# Suites over the table of ops, which share the cases of tests/conformance:
#   test_conformance  what every OpDef promises
#   test_op_counts    costs; links the op layer compiled once more with a counting scalar behind f64
#   test_op_graphs    graphs of every op: unknown batch
#   test_kernel_cuda  CUDA kernels against the reference
#   test_op_records   outputs and gradients recorded from PyTorch; dump_op_cases is what its recorder reads
file(GLOB_RECURSE trireme_case_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/conformance/*.cc")
set(trireme_conformance_sources ${trireme_case_sources})
list(FILTER trireme_case_sources EXCLUDE REGEX "_test\\.cc$")
list(FILTER trireme_conformance_sources INCLUDE REGEX "_test\\.cc$")
add_library(trireme_op_cases OBJECT ${trireme_case_sources})
target_link_libraries(trireme_op_cases PUBLIC trireme_tensor trireme_cost)
target_compile_options(trireme_op_cases PRIVATE $<$<CONFIG:Release>:-O1>)  # tables: quick to compile
trireme_compile_together(trireme_op_cases "")
set(trireme_cases $<TARGET_OBJECTS:trireme_op_cases>)

set(TRIREME_LAYER_OF_conformance op)
set(TRIREME_LAYER_OF_op_records op)
set(TRIREME_LAYER_OF_op_graphs graph)
set(TRIREME_LAYER_OF_op_counts op_counted)
trireme_add_test(test_conformance conformance quick ${trireme_conformance_sources} ${trireme_cases})

file(GLOB trireme_graph_case_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/op_graphs/*.cc")
trireme_add_test(test_op_graphs op_graphs quick ${trireme_graph_case_sources} ${trireme_cases})

# On a GPU the values are compared; elsewhere the texts of the kernels are compiled.
if(TRIREME_HAVE_CUDA AND NOT TRIREME_SUITE)
  set(TRIREME_LAYER_OF_kernel_cuda kernel)
  file(GLOB trireme_cuda_test_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/kernel_cuda/*.cc")
  trireme_add_test(test_kernel_cuda kernel_cuda quick ${trireme_cuda_test_sources} ${trireme_cases}
                   "${CMAKE_SOURCE_DIR}/tests/kernel/cases.cc" "${CMAKE_SOURCE_DIR}/tests/kernel/formed_cases.cc"
                   "${CMAKE_SOURCE_DIR}/tests/kernel/net_cases.cc"
                   "${CMAKE_SOURCE_DIR}/tests/kernel/runner.cc")
  target_link_libraries(test_kernel_cuda PRIVATE ${CMAKE_DL_LIBS})
endif()

# The suites below say nothing new about memory or races.
if(NOT TRIREME_SUITE)
  set(trireme_records "${CMAKE_SOURCE_DIR}/tests/op_records")
  trireme_add_test(test_op_records op_records quick "${trireme_records}/recorded_test.cc" "${trireme_records}/records.cc"
                   ${trireme_cases})
  add_executable(dump_op_cases EXCLUDE_FROM_ALL "${trireme_records}/dump_op_cases.cc" "${trireme_records}/records.cc"
                 ${trireme_cases})
  target_link_libraries(dump_op_cases PRIVATE trireme_op)

  # Unoptimised: its kernels run on a few elements only.
  file(GLOB_RECURSE trireme_op_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/op/*.cc")
  add_library(trireme_op_counted STATIC ${trireme_op_sources})
  target_compile_definitions(trireme_op_counted PRIVATE TRIREME_F64=trireme::op::testing::Counted)
  target_compile_options(trireme_op_counted PRIVATE -O0)
  target_link_libraries(trireme_op_counted PUBLIC trireme_tensor trireme_cost)
  target_precompile_headers(trireme_op_counted PRIVATE "${CMAKE_SOURCE_DIR}/cmake/precompiled.h"
                            "${CMAKE_SOURCE_DIR}/tests/op_counts/counted.h")
  trireme_unity(trireme_op_counted)
  trireme_add_test(test_op_counts op_counts quick "${CMAKE_SOURCE_DIR}/tests/op_counts/op_counts_test.cc" ${trireme_cases})
endif()
