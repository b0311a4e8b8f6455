# What reads data files: zlib always; libpng and libturbojpeg where they are found (without one, such pictures are refused
# with a message that names the package). By path, like OpenBLAS, so that the installed package needs nothing new. Static where
# they can be: a part of each is used.
find_path(TRIREME_ZLIB_INCLUDE zlib.h REQUIRED)
find_library(TRIREME_ZLIB NAMES libz.a z REQUIRED)
find_path(TRIREME_PNG_INCLUDE png.h)
find_library(TRIREME_PNG NAMES libpng16.a png16 png)
find_path(TRIREME_TURBOJPEG_INCLUDE turbojpeg.h)
find_library(TRIREME_TURBOJPEG NAMES libturbojpeg.a turbojpeg)

function(trireme_data_library name file include_dir library define)
  if(NOT include_dir OR NOT library)
    message(STATUS "${name}: not found")
    return()
  endif()
  message(STATUS "${name}: ${library}")
  add_library(trireme_${name} INTERFACE)
  target_include_directories(trireme_${name} SYSTEM INTERFACE "${include_dir}")
  target_link_libraries(trireme_${name} INTERFACE "${library}")
  set(TRIREME_EXTERNAL_data ${TRIREME_EXTERNAL_data} trireme_${name} PARENT_SCOPE)
  foreach(one IN LISTS file)
    set_property(SOURCE "${CMAKE_SOURCE_DIR}/trireme/data/read/${one}" APPEND PROPERTY COMPILE_DEFINITIONS ${define}=1)
  endforeach()
endfunction()
set(TRIREME_EXTERNAL_data "")
trireme_data_library(png "image_png.cc;image_encode.cc" "${TRIREME_PNG_INCLUDE}" "${TRIREME_PNG}" TRIREME_HAVE_PNG)
trireme_data_library(turbojpeg image_jpeg.cc "${TRIREME_TURBOJPEG_INCLUDE}" "${TRIREME_TURBOJPEG}" TRIREME_HAVE_TURBOJPEG)
# Last: a static libpng calls it.
trireme_data_library(zlib inflate.cc "${TRIREME_ZLIB_INCLUDE}" "${TRIREME_ZLIB}" TRIREME_HAVE_ZLIB)
