// NVRTC that asks the host's compiler. What was compiled once is kept in the folder texts/ beside this
// library, by a hash of the text.
#include <dlfcn.h>
#include <nvrtc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/gpu_emulator/text.h"

struct _nvrtcProgram {
  std::string text, name, log, library;
};

namespace {

// "GPUEMU01", the length in 8 bytes, a shared library: modules.cc reads it.
constexpr std::string_view kMagic = "GPUEMU01";
constexpr const char* kFlags =
    "-std=c++17 -O1 -fPIC -shared -Wl,-Bsymbolic -fvisibility=hidden -fno-gnu-unique -fno-exceptions "
    "-fno-rtti "
    "-fno-threadsafe-statics "
    "-fno-asynchronous-unwind-tables -fno-strict-aliasing -ffp-contract=off -fno-math-errno -nostdlib -w -x "
    "c++";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

std::string folder() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&read_file), &info);
  return std::filesystem::absolute(info.dli_fname).parent_path().string();
}

// FNV-1a, from two starts.
std::string hash_of(const std::string& text) {
  char out[33];
  std::uint64_t h[2] = {14695981039346656037ULL, 1099511628211ULL};
  for (const char c : text)
    for (std::uint64_t& v : h) v = (v ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(h[0]),
                static_cast<unsigned long long>(h[1]));
  return out;
}

// The compiler's messages; empty where it made `to`.
std::string compile(const std::string& text, const std::string& to, const std::string& libraries) {
  static std::atomic<int> number{0};  // threads of one process may compile the same text
  const std::string own = to + "." + std::to_string(getpid()) + "-" + std::to_string(number++),
                    source = own + ".cc", made = own + ".so", log = own + ".log";
  std::ofstream(source, std::ios::binary) << text;
  const std::string command = std::string(GPU_EMULATOR_COMPILER) + " " + kFlags + " '" + source + "' -o '" +
                              made + "' -x none '" + libraries + "/libcuda.so.1' > '" + log + "' 2>&1";
  const int result = std::system(command.c_str());
  std::string said = read_file(log);
  std::filesystem::remove(log);
  std::filesystem::remove(source);
  if (result != 0) return said.empty() ? "the compiler could not be started: " + command : said;
  std::filesystem::rename(made, to);  // whole or not at all: others compile it as well
  return {};
}

}  // namespace

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char* name, int,
                               const char* const*, const char* const*) {
  *program = new _nvrtcProgram{text, name != nullptr ? name : "text.cu", "", ""};
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int, const char* const*) {
  const std::string text =
      read_file(GPU_EMULATOR_WORDS) + "#line 1 \"" + p->name + "\"\n" + gpu_emulator::to_host_text(p->text);
  const std::string at = folder(), to = at + "/texts/" + hash_of(text + kFlags) + ".so";
  std::error_code ignored;
  std::filesystem::create_directories(at + "/texts", ignored);
  if (!std::filesystem::exists(to)) p->log = compile(text, to, at);
  if (!p->log.empty()) return NVRTC_ERROR_COMPILATION;
  p->library = read_file(to);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, std::size_t* size) {
  *size = p->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char* log) {
  std::copy_n(p->log.c_str(), p->log.size() + 1, log);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, std::size_t* size) {
  *size = kMagic.size() + sizeof(std::uint64_t) + p->library.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char* cubin) {
  const std::uint64_t size = p->library.size();
  cubin = std::copy(kMagic.begin(), kMagic.end(), cubin);
  cubin = std::copy_n(reinterpret_cast<const char*>(&size), sizeof size, cubin);
  std::copy(p->library.begin(), p->library.end(), cubin);
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "success" : "the host's compiler refused the text";
}
