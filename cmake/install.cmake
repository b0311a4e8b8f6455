# cmake --install: the binary, the libraries, the public headers, and a package for find_package(trireme CONFIG) with
# the targets trireme::trireme (everything a program uses) and trireme::<layer>. docs/how_to_use_as_a_library.md.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The command line is no library; everything else is.
set(trireme_exported ${TRIREME_LAYERS})
list(REMOVE_ITEM trireme_exported cli)

# Libraries from outside that are targets of this project travel with the package; real packages are found again.
set(trireme_export_targets "")
foreach(layer IN LISTS trireme_exported)
  list(APPEND trireme_export_targets trireme_${layer})
  set_target_properties(trireme_${layer} PROPERTIES EXPORT_NAME ${layer})
  foreach(external IN LISTS TRIREME_EXTERNAL_${layer})
    if(TARGET ${external})
      get_target_property(imported ${external} IMPORTED)
      if(NOT imported)
        list(APPEND trireme_export_targets ${external})
      endif()
    endif()
  endforeach()
endforeach()
if(TARGET trireme_onednn)
  list(APPEND trireme_export_targets trireme_onednn)
endif()
list(REMOVE_DUPLICATES trireme_export_targets)

# Paths of the source tree mean nothing in a package; oneDNN's headers are needed by no user of it.
foreach(target IN LISTS trireme_export_targets)
  foreach(property IN ITEMS INTERFACE_INCLUDE_DIRECTORIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
    get_target_property(includes ${target} ${property})
    set(portable "")
    foreach(path IN LISTS includes)
      string(FIND "${path}" "${CMAKE_SOURCE_DIR}" at)
      if(at EQUAL 0 OR target STREQUAL "trireme_onednn")
        list(APPEND portable "$<BUILD_INTERFACE:${path}>")
      else()
        list(APPEND portable "${path}")
      endif()
    endforeach()
    if(includes)
      set_target_properties(${target} PROPERTIES ${property} "${portable}")
    endif()
  endforeach()
endforeach()
foreach(layer IN LISTS trireme_exported)
  target_include_directories(trireme_${layer} INTERFACE "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
endforeach()
target_compile_features(trireme_base INTERFACE cxx_std_20)
# A program refers to OpenBLAS or to oneDNN, never to both: what it does not use is not loaded either.
target_link_options(trireme_kernel INTERFACE "$<INSTALL_INTERFACE:LINKER:--as-needed>")

add_library(trireme_all INTERFACE)
set_target_properties(trireme_all PROPERTIES EXPORT_NAME trireme)
target_link_libraries(trireme_all INTERFACE trireme_search trireme_launch)

install(TARGETS ${trireme_export_targets} trireme_all EXPORT trireme-targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET trireme)
  set_target_properties(trireme PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/trireme")
  install(TARGETS trireme RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
if(TARGET trireme_mpi)
  install(TARGETS trireme_mpi LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/trireme")
endif()
# oneDNN comes prebuilt and from no system package, so a copy goes along, out of the way of others.
set(trireme_onednn_file "")
if(TARGET trireme_onednn_library)
  set(trireme_onednn_file libdnnl.so.3)
  get_target_property(path trireme_onednn_library IMPORTED_LOCATION)
  get_filename_component(path "${path}" REALPATH)  # not the link: where it points stays behind
  install(FILES "${path}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/trireme" RENAME ${trireme_onednn_file})
endif()

# Public headers. Those left out are named internal at their head.
file(STRINGS "${CMAKE_SOURCE_DIR}/cmake/private_headers.txt" trireme_private REGEX "^[a-z]")
set(trireme_header_excludes "")
foreach(pattern IN LISTS trireme_private)
  list(APPEND trireme_header_excludes REGEX "/trireme/${pattern}$" EXCLUDE)
endforeach()
install(DIRECTORY "${CMAKE_SOURCE_DIR}/trireme/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/trireme"
        FILES_MATCHING PATTERN "*.h" ${trireme_header_excludes})

set(trireme_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/trireme")
install(EXPORT trireme-targets NAMESPACE trireme:: DESTINATION "${trireme_package_dir}")
configure_package_config_file("${CMAKE_SOURCE_DIR}/cmake/trireme-config.cmake.in"
                              "${CMAKE_BINARY_DIR}/trireme-config.cmake" INSTALL_DESTINATION "${trireme_package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/trireme-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/trireme-config.cmake" "${CMAKE_BINARY_DIR}/trireme-config-version.cmake"
        DESTINATION "${trireme_package_dir}")

if(TRIREME_TESTS AND TARGET trireme)
  add_dependencies(tests_quick trireme trireme_all)
  add_test(NAME install COMMAND bash "${CMAKE_SOURCE_DIR}/tests/install/install_test.sh" "${CMAKE_BINARY_DIR}")
  set_tests_properties(install PROPERTIES LABELS "install;quick" TIMEOUT 600)
endif()
