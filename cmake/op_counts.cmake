# test_op_counts: the op layer compiled once more with a counting scalar behind f64 (tests/op_counts/counted.h).
# Unoptimised: its kernels run on a few elements only.
file(GLOB_RECURSE trireme_op_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/op/*.cc")
file(GLOB_RECURSE trireme_case_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/conformance/*.cc")
list(FILTER trireme_case_sources EXCLUDE REGEX "_test\\.cc$")
add_library(trireme_op_counted STATIC ${trireme_op_sources})
target_include_directories(trireme_op_counted PUBLIC "${CMAKE_SOURCE_DIR}")
target_compile_definitions(trireme_op_counted PRIVATE TRIREME_F64=trireme::op::testing::Counted)
target_compile_options(trireme_op_counted PRIVATE -O0 -include "${CMAKE_SOURCE_DIR}/tests/op_counts/counted.h")
target_link_libraries(trireme_op_counted PUBLIC trireme_tensor trireme_cost)
add_executable(test_op_counts "${CMAKE_SOURCE_DIR}/tests/op_counts/op_counts_test.cc" ${trireme_case_sources})
target_link_libraries(test_op_counts PRIVATE trireme_op_counted GTest::gtest_main)
add_test(NAME test_op_counts COMMAND test_op_counts --gtest_brief=1)
set_tests_properties(test_op_counts PROPERTIES LABELS "op_counts;quick" TIMEOUT ${trireme_test_timeout_s})
