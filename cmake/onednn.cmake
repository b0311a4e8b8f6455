# Defines the target trireme_onednn where oneDNN 3 is found below TRIREME_ONEDNN_ROOT (tools/fetch_onednn puts it there),
# and TRIREME_ONEDNN_STATUS for the report. The system's own oneDNN is not looked for: Debian 12 and Ubuntu 24.04
# ship different interfaces, and the same job should compute the same bits on both.
set(TRIREME_ONEDNN_ROOT "${CMAKE_SOURCE_DIR}/build/deps/onednn" CACHE PATH "Folder with include/ and lib/ of oneDNN 3")

set(TRIREME_ONEDNN_STATUS "off")
if(TRIREME_ONEDNN STREQUAL "OFF")
  return()
endif()

set(trireme_onednn_library "${TRIREME_ONEDNN_ROOT}/lib/libdnnl.so")
if(EXISTS "${trireme_onednn_library}" AND EXISTS "${TRIREME_ONEDNN_ROOT}/include/oneapi/dnnl/dnnl.hpp")
  file(READ "${TRIREME_ONEDNN_ROOT}/include/oneapi/dnnl/dnnl_version.h" text)
  string(REGEX MATCH "DNNL_VERSION_MAJOR ([0-9]+)" _ "${text}")
  set(major ${CMAKE_MATCH_1})
  string(REGEX MATCH "DNNL_VERSION_MINOR ([0-9]+)" _ "${text}")
  set(TRIREME_ONEDNN_STATUS "${major}.${CMAKE_MATCH_1} in ${TRIREME_ONEDNN_ROOT}")
  if(NOT major EQUAL 3)
    message(FATAL_ERROR "oneDNN: got version ${major} in ${TRIREME_ONEDNN_ROOT}, expected 3")
  endif()
  add_library(trireme_onednn_library SHARED IMPORTED)
  set_target_properties(trireme_onednn_library PROPERTIES
    IMPORTED_LOCATION "${trireme_onednn_library}" IMPORTED_SONAME libdnnl.so.3)
  add_library(trireme_onednn INTERFACE)
  target_include_directories(trireme_onednn SYSTEM INTERFACE "${TRIREME_ONEDNN_ROOT}/include")
  # libgomp too: the kernels tell it how many threads one call may use.
  target_link_libraries(trireme_onednn INTERFACE trireme_onednn_library gomp)
elseif(TRIREME_ONEDNN STREQUAL "ON")
  message(FATAL_ERROR "oneDNN is wanted (TRIREME_ONEDNN=ON) but not in ${TRIREME_ONEDNN_ROOT}; run tools/fetch_onednn build/deps")
else()
  set(TRIREME_ONEDNN_STATUS "not found, kernels use OpenBLAS")
endif()
