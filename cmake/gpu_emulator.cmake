# tests/gpu_emulator: CUDA's libraries, run by the processor. LD_LIBRARY_PATH=<build>/gpu_emulator puts them in
# the place of NVIDIA's.
set(TRIREME_GPU_EMULATOR "${CMAKE_BINARY_DIR}/gpu_emulator")
add_custom_target(gpu_emulator)

function(trireme_emulated_library target file)
  add_library(${target} SHARED ${ARGN})
  target_include_directories(${target} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_include_directories(${target} SYSTEM PRIVATE ${TRIREME_CUDA_INCLUDES})
  # Jumps between fibres are not returns up a stack.
  target_compile_options(${target} PRIVATE -O2 -U_FORTIFY_SOURCE -Wno-unused-parameter)
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${file}
                        LIBRARY_OUTPUT_DIRECTORY "${TRIREME_GPU_EMULATOR}" BUILD_RPATH "${TRIREME_GPU_EMULATOR}")
  target_link_options(${target} PRIVATE "-Wl,-soname,${file}")
  add_dependencies(gpu_emulator ${target})
endfunction()

set(emulator "${CMAKE_SOURCE_DIR}/tests/gpu_emulator")
trireme_emulated_library(emulated_cuda libcuda.so.1 ${emulator}/driver.cc ${emulator}/streams.cc ${emulator}/modules.cc
                         ${emulator}/block.cc)
target_link_libraries(emulated_cuda PRIVATE ${CMAKE_DL_LIBS})
trireme_emulated_library(emulated_nvrtc libnvrtc.so.13 ${emulator}/nvrtc.cc ${emulator}/text.cc)
target_link_libraries(emulated_nvrtc PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(emulated_nvrtc PRIVATE GPU_EMULATOR_COMPILER="${CMAKE_CXX_COMPILER}"
                           GPU_EMULATOR_WORDS="${emulator}/words.h")
trireme_emulated_library(emulated_blas libcublasLt.so.13 ${emulator}/blas.cc)
target_link_libraries(emulated_blas PRIVATE emulated_cuda)
trireme_emulated_library(emulated_dnn libcudnn.so.9 ${emulator}/dnn.cc)

# `name` once more, on the emulator; there is always a GPU then. The host's side of comparisons goes without tiles
# (AMX): guests that have no GPU often announce them and do not pass them on.
function(trireme_add_emulated_test name folder)
  add_dependencies(${name} gpu_emulator)
  add_test(NAME ${name}.emulated COMMAND ${name} --gtest_brief=1 ${ARGN})
  set_tests_properties(${name}.emulated PROPERTIES LABELS "${folder};quick" TIMEOUT ${trireme_test_timeout_s}
    ENVIRONMENT "${trireme_test_environment};LD_LIBRARY_PATH=${TRIREME_GPU_EMULATOR}:${TRIREME_FAKE_NCCL};TRIREME_NEEDS_GPU=1;GPU_EMULATOR_MEMORY_BYTES=268435456;ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16")
endfunction()
