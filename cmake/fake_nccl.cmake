# The library that tests load in the place of NCCL: by its path, or as libnccl.so.2 by LD_LIBRARY_PATH.
set(TRIREME_FAKE_NCCL "${CMAKE_BINARY_DIR}/fake_nccl")
add_library(fake_nccl SHARED "${CMAKE_SOURCE_DIR}/tests/fake_nccl/fake_nccl.cc")
set_target_properties(fake_nccl PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2
                      LIBRARY_OUTPUT_DIRECTORY "${TRIREME_FAKE_NCCL}")
find_package(Threads REQUIRED)
target_link_libraries(fake_nccl PRIVATE Threads::Threads)
add_dependencies(test_comm fake_nccl)
target_compile_definitions(test_comm PRIVATE TRIREME_FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
