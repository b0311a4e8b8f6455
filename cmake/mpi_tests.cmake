# Tests that need mpirun; only where MPI was found.
#   test_net_mpi   tests/net_mpi: the transport; mpirun starts the test program itself, four times
#   test_comm_mpi  tests/comm_mpi: no hang; the test program starts mpirun, which starts it again, once per rank
#   test_mpirun    tests/mpirun: the command line under mpirun
if(NOT TRIREME_MPI_FOUND OR TRIREME_SUITE)  # MPI's own memory and threads would be all that a sanitizer sees
  return()
endif()
# More ranks than cores, also as root (containers), on this host alone.
set(trireme_mpi_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 "TRIREME_MPIRUN=${MPIEXEC_EXECUTABLE}")

file(GLOB trireme_net_mpi_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/net_mpi/*.cc")
if(trireme_net_mpi_sources)
  add_executable(test_net_mpi ${trireme_net_mpi_sources})
  target_include_directories(test_net_mpi PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(test_net_mpi PRIVATE trireme_net GTest::gtest)
  add_dependencies(test_net_mpi trireme_mpi)
  add_dependencies(tests_quick test_net_mpi)
  add_test(NAME test_net_mpi COMMAND "${MPIEXEC_EXECUTABLE}" -n 4 $<TARGET_FILE:test_net_mpi> --gtest_brief=1)
  set_tests_properties(test_net_mpi PROPERTIES LABELS "net;quick" TIMEOUT 600 ENVIRONMENT "${trireme_mpi_environment}")
endif()

file(GLOB trireme_comm_mpi_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/comm_mpi/*.cc")
if(trireme_comm_mpi_sources)
  foreach(shared IN ITEMS ranks mute no_hang_draw no_hang_processes)
    list(APPEND trireme_comm_mpi_sources "${CMAKE_SOURCE_DIR}/tests/comm/${shared}.cc")
  endforeach()
  add_executable(test_comm_mpi ${trireme_comm_mpi_sources})
  target_include_directories(test_comm_mpi PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_libraries(test_comm_mpi PRIVATE trireme_comm GTest::gtest_main)
  add_dependencies(test_comm_mpi trireme_mpi)
  add_dependencies(tests_quick test_comm_mpi)
  add_test(NAME test_comm_mpi COMMAND test_comm_mpi --gtest_brief=1)
  set_tests_properties(test_comm_mpi PROPERTIES LABELS "comm;quick" TIMEOUT 600 ENVIRONMENT "${trireme_mpi_environment}")
endif()

file(GLOB trireme_mpirun_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/mpirun/*.cc")
if(trireme_mpirun_sources)
  trireme_add_test(test_mpirun mpirun quick ${trireme_mpirun_sources} "${CMAKE_SOURCE_DIR}/tests/system/binary.cc")
  set_property(TEST test_mpirun APPEND PROPERTY ENVIRONMENT "${trireme_mpi_environment}")
endif()
