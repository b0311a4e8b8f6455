# examples/<name>.cc becomes example_<name> and, with the tests, the ctest entry example_<name>: it must exit with 0 and
# print what the comment at its head says (cmake/check_example.cmake).
file(GLOB trireme_example_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/examples/*.cc")
foreach(source IN LISTS trireme_example_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  target_link_libraries(example_${name} PRIVATE trireme_exec trireme_eager trireme_start)
  target_include_directories(example_${name} PRIVATE "${CMAKE_SOURCE_DIR}")
  # GCC 13 sees an array bound broken inside fmt where there is none.
  target_compile_options(example_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
  if(TRIREME_TESTS AND NOT TRIREME_SUITE)
    add_dependencies(tests_quick example_${name})
    add_test(NAME example_${name}
             COMMAND "${CMAKE_COMMAND}" -DPROGRAM=$<TARGET_FILE:example_${name}> -DSOURCE=${source}
                     -P "${CMAKE_SOURCE_DIR}/cmake/check_example.cmake")
    set_tests_properties(example_${name} PROPERTIES LABELS "examples;quick" TIMEOUT 600)
  endif()
endforeach()
