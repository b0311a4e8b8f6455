# One library per row of tools/layers.txt: trireme_<folder>, made of every .cc file below trireme/<folder>/.
# A folder that is absent or has only headers is an INTERFACE library, so that the relation stays whole.
set(trireme_layers_file "${CMAKE_SOURCE_DIR}/tools/layers.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${trireme_layers_file}")
file(STRINGS "${trireme_layers_file}" trireme_rows REGEX "^[a-z]")
set(TRIREME_LAYERS "")

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
  if(TRIREME_HAVE_CUDA)
    list(FILTER sources EXCLUDE REGEX "/kernel/cuda/absent\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/kernel/cuda/([^a]|a[^b])[a-z0-9_]*\\.cc$")
    if(folder STREQUAL "kernel")
      list(APPEND sources "${CMAKE_SOURCE_DIR}/trireme/kernel/cuda/compiled_texts.cc")  # needs no CUDA
    endif()
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
# kernel/), option parsing is large, and the rest runs once per job.
foreach(layer IN ITEMS collective op graph plan model io launch server train cli)
  target_compile_options(trireme_${layer} PRIVATE $<$<CONFIG:Release>:-Os>)
endforeach()
# The same file by file: loops over vectors are fast, and what only meets, judges or waits is small.
set(trireme_fast model/parameter server/updater server/row_updater train/replica_step train/replica_unit)
set(trireme_small
    agree/agree agree/averaging agree/coded_changes agree/conservative agree/decentralized agree/downpour agree/easgd agree/easgd_async agree/errands
    agree/gossip agree/gossip_parcels agree/hogwild agree/local_replicas
    agree/meeting agree/none agree/peer_clocks agree/peer_letters agree/peer_send agree/peer_updates agree/period agree/push_pull
    agree/server_link agree/server_updates agree/ssp_peer agree/star agree/table agree/turns
    base/json comm/calls comm/coded_sum comm/coded_work comm/device_coder comm/device_format comm/device_parts comm/device_sum comm/device_sum_nccl comm/device_sum_staged comm/doubling_sum comm/mailbox comm/mailbox_receive comm/nccl/nccl comm/nccl/library
    cost/calibration cost/cost_json cost/field_reader cost/topology_json cost/topology_to_json cost/topology_trees
    data/cifar data/csv data/dataset data/idx data/leases data/load_cifar data/load_csv data/load_digits data/load_idx data/load_images
    data/load_npy data/load_text data/npy data/npy_header data/partition data/split data/zip
    eager/gradients eager/tracer exec/compile exec/profile exec/session exec/session_graph
    runtime/real/executable runtime/real/log_file runtime/real/real_files runtime/real/real_processes runtime/virtual/cluster_json
    runtime/virtual/disk runtime/virtual/files runtime/virtual/paths runtime/virtual/process
    net/call_teller net/control_message net/coordinator net/judge net/membership net/mpi/mpi_receive net/mpi/mpi_transport net/mpi/session net/recording net/rendezvous net/setup_message net/shm/rendezvous net/tcp/mesh net/verdict)
foreach(manner IN ITEMS fast small)
  foreach(name IN LISTS trireme_${manner})
    if(NOT EXISTS "${CMAKE_SOURCE_DIR}/trireme/${name}.cc")
      message(FATAL_ERROR "cmake/layers.cmake: there is no trireme/${name}.cc")
    endif()
    set_property(SOURCE "${CMAKE_SOURCE_DIR}/trireme/${name}.cc" APPEND PROPERTY COMPILE_OPTIONS
                 "$<$<CONFIG:Release>:$<IF:$<STREQUAL:${manner},fast>,-O3,-Os>>")
  endforeach()
endforeach()
# Kernels for GPUs are texts; what surrounds them runs once per node of a compiled graph.
file(GLOB trireme_cuda_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/trireme/kernel/cuda/*.cc")
set_property(SOURCE ${trireme_cuda_sources} APPEND PROPERTY COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")
if(TRIREME_SANITIZE MATCHES "undefined")
  target_compile_options(trireme_op PRIVATE -O0)  # a third of the time to compile
endif()

if(TRIREME_HAVE_CUDA)
  target_include_directories(trireme_kernel SYSTEM PRIVATE ${TRIREME_CUDA_INCLUDES})
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

set_property(SOURCE "${CMAKE_SOURCE_DIR}/trireme/cli/version.cc" APPEND PROPERTY COMPILE_DEFINITIONS
             TRIREME_VERSION="${PROJECT_VERSION}")

include(mpi)
