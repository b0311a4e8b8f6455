# External libraries, and which folder uses which. A folder's row is inherited by the folders above it.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
# Static where it can be: only its SHA-256 is used, a few kilobytes instead of a library.
if(OPENSSL_CRYPTO_LIBRARY MATCHES "\\.so$")
  unset(OPENSSL_CRYPTO_LIBRARY CACHE)
endif()
set(OPENSSL_USE_STATIC_LIBS TRUE)
find_package(OpenSSL QUIET COMPONENTS Crypto)
if(NOT OpenSSL_FOUND)
  set(OPENSSL_USE_STATIC_LIBS FALSE)
  find_package(OpenSSL REQUIRED COMPONENTS Crypto)
endif()

# Header-only on purpose: distributions differ in whether they ship a compiled toml++.
find_path(TRIREME_TOML_INCLUDE toml++/toml.h REQUIRED)
add_library(trireme_toml INTERFACE)
target_include_directories(trireme_toml SYSTEM INTERFACE "${TRIREME_TOML_INCLUDE}")

# By path, because the BLAS alternative of the machine may point at another library.
find_path(TRIREME_CBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-pthread openblas REQUIRED)
find_library(TRIREME_OPENBLAS NAMES openblas PATH_SUFFIXES openblas-pthread REQUIRED)
add_library(trireme_openblas INTERFACE)
target_include_directories(trireme_openblas SYSTEM INTERFACE "${TRIREME_CBLAS_INCLUDE}")
target_link_libraries(trireme_openblas INTERFACE "${TRIREME_OPENBLAS}")

include(onednn)
include(data_libraries)

set(TRIREME_EXTERNAL_base fmt::fmt nlohmann_json::nlohmann_json OpenSSL::Crypto)
set(TRIREME_EXTERNAL_runtime Threads::Threads)
set(TRIREME_EXTERNAL_kernel trireme_openblas)
include(cuda)
set(TRIREME_EXTERNAL_job trireme_toml)
set(TRIREME_EXTERNAL_cli CLI11::CLI11)

message(STATUS "oneDNN: ${TRIREME_ONEDNN_STATUS}")
message(STATUS "CUDA: ${TRIREME_CUDA_STATUS}")
