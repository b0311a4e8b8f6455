#include "trireme/data/read/inflate.h"

#include <zlib.h>

#include <algorithm>

namespace trireme::data {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 18;
constexpr std::size_t kMaxRatio = 1032;  // no deflate stream grows more (zlib's technical details)

// One zlib stream over bytes that may be longer than an uInt counts.
class Inflater {
 public:
  explicit Inflater(int window_bits) { ready_ = inflateInit2(&stream_, window_bits) == Z_OK; }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  bool ready() const { return ready_; }
  bool restart() { return inflateReset(&stream_) == Z_OK; }
  const char* message() const { return stream_.msg != nullptr ? stream_.msg : "damaged stream"; }

  // Consumes from `in` from `at` on, appends to `out` at most until it is `limit` long.
  int step(ByteView in, std::size_t& at, Bytes& out, std::size_t limit) {
    const std::size_t give = std::min(in.size() - at, kChunkBytes);
    const std::size_t old = out.size(), room = std::min(kChunkBytes, limit - old);
    out.resize(old + room);
    // zlib does not write through next_in.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data() + at));
    stream_.avail_in = static_cast<uInt>(give);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + old);
    stream_.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    at += give - stream_.avail_in;
    out.resize(old + room - stream_.avail_out);
    return code;
  }

 private:
  z_stream stream_{};
  bool ready_ = false;
};

Status damaged(std::string_view source, std::size_t offset, std::string_view why) {
  return error(Code::kCorrupt, "[data] {}, offset {}: compressed data is damaged: {}; fetch the file again",
               source, offset, why);
}

}  // namespace

bool is_gzip(ByteView bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

Result<Bytes> gunzip(ByteView bytes, std::string_view source, std::size_t max_bytes) {
  Inflater inflater(15 + 16);  // the largest window, gzip header expected
  if (!inflater.ready()) return error(Code::kExhausted, "[data] {}: no memory to decompress", source);
  Bytes out;
  std::size_t at = 0;
  while (true) {
    const std::size_t before_in = at, before_out = out.size();
    const int code = inflater.step(bytes, at, out, max_bytes + 1);
    if (out.size() > max_bytes)
      return error(Code::kExhausted, "[data] {}, offset {}: holds more than {} bytes; split the file", source,
                   at, max_bytes);
    if (code == Z_STREAM_END) {
      if (at == bytes.size()) return out;
      if (!is_gzip(bytes.subspan(at))) return damaged(source, at, "bytes after the end");
      if (!inflater.restart()) return damaged(source, at, "cannot go on");
      continue;
    }
    if (code != Z_OK && code != Z_BUF_ERROR) return damaged(source, at, inflater.message());
    if (at == before_in && out.size() == before_out) return damaged(source, at, "it ends too early");
  }
}

Result<Bytes> gunzip_if_needed(Bytes bytes, std::string_view source) {
  if (!is_gzip(bytes)) return bytes;
  return gunzip(bytes, source);
}

Result<Bytes> inflate_raw(ByteView bytes, std::size_t size, std::string_view source, std::size_t offset) {
  if (size / kMaxRatio > bytes.size())
    return damaged(source, offset, fmt::format("{} bytes cannot hold {}", bytes.size(), size));
  Inflater inflater(-15);
  if (!inflater.ready()) return error(Code::kExhausted, "[data] {}: no memory to decompress", source);
  Bytes out;
  std::size_t at = 0;
  while (true) {
    const std::size_t before_in = at, before_out = out.size();
    const int code = inflater.step(bytes, at, out, size + 1);
    if (code == Z_STREAM_END && out.size() == size && at == bytes.size()) return out;
    if (code == Z_STREAM_END || out.size() > size)
      return damaged(source, offset + at, fmt::format("got {} bytes, expected {}", out.size(), size));
    if (code != Z_OK && code != Z_BUF_ERROR) return damaged(source, offset + at, inflater.message());
    if (at == before_in && out.size() == before_out) return damaged(source, offset + at, "it ends too early");
  }
}

std::uint32_t crc32_of(ByteView bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace trireme::data
