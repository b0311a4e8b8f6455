#include "trireme/data/read/zip.h"

namespace trireme::data {
namespace {

constexpr std::uint32_t kEndMagic = 0x06054B50, kEntryMagic = 0x02014B50, kLocalMagic = 0x04034B50;
constexpr std::size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kMaxComment = 65535;
constexpr std::uint32_t kInZip64 = 0xFFFFFFFF;

template <typename T>
T at(ByteView bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct Entry {
  std::uint16_t flags, method;
  std::uint32_t crc, packed, unpacked, local;
  std::string name;
};

class ZipReader {
 public:
  ZipReader(ByteView bytes, std::string_view source, std::size_t max_bytes)
      : bytes_(bytes), source_(source), left_(max_bytes) {}

  Result<std::vector<ZipMember>> members() {
    TR_ASSIGN_OR_RETURN(const std::size_t end, find_end());
    const auto count = at<std::uint16_t>(bytes_, end + 10);
    if (at<std::uint16_t>(bytes_, end + 8) != count) return fail(end + 8, "the archive has several disks");
    std::size_t next = at<std::uint32_t>(bytes_, end + 16);
    if (next == kInZip64 || count == 0xFFFF)
      return fail(end, "zip64 archives are not read; save several smaller files");
    if (next > end) return fail(end + 16, "the directory lies behind its end");
    std::vector<ZipMember> out;
    for (std::uint16_t i = 0; i < count; ++i) {
      TR_ASSIGN_OR_RETURN(const Entry entry, take_entry(next, end));
      TR_ASSIGN_OR_RETURN(Bytes content, unpack(entry));
      out.push_back({entry.name, std::move(content)});
    }
    return out;
  }

 private:
  Status fail(std::size_t offset, std::string what) const {
    return error(Code::kCorrupt, "[data] {}, offset {}: {}; is it a zip archive?", source_, offset, what);
  }

  // The end record has a comment of any length behind it, so it is looked for from the back.
  Result<std::size_t> find_end() const {
    if (bytes_.size() < kEndBytes) return fail(bytes_.size(), "the file is too short");
    const std::size_t last = bytes_.size() - kEndBytes;
    for (std::size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
      const std::size_t end = last - back;
      if (at<std::uint32_t>(bytes_, end) == kEndMagic && at<std::uint16_t>(bytes_, end + 20) == back)
        return end;
    }
    return fail(bytes_.size(), "the directory at the end is missing: the file ends early");
  }

  Result<Entry> take_entry(std::size_t& next, std::size_t end) const {
    if (end - next < kEntryBytes || at<std::uint32_t>(bytes_, next) != kEntryMagic)
      return fail(next, "no directory entry where one should be");
    Entry e;
    e.flags = at<std::uint16_t>(bytes_, next + 8);
    e.method = at<std::uint16_t>(bytes_, next + 10);
    e.crc = at<std::uint32_t>(bytes_, next + 16);
    e.packed = at<std::uint32_t>(bytes_, next + 20);
    e.unpacked = at<std::uint32_t>(bytes_, next + 24);
    e.local = at<std::uint32_t>(bytes_, next + 42);
    const std::size_t name = at<std::uint16_t>(bytes_, next + 28);
    const std::size_t size =
        kEntryBytes + name + at<std::uint16_t>(bytes_, next + 30) + at<std::uint16_t>(bytes_, next + 32);
    if (end - next < size) return fail(next, "a directory entry reaches behind the directory");
    e.name = as_text(bytes_.subspan(next + kEntryBytes, name));
    if (e.packed == kInZip64 || e.unpacked == kInZip64 || e.local == kInZip64)
      return fail(next, "zip64 members are not read; save several smaller files");
    next += size;
    return e;
  }

  Result<Bytes> unpack(const Entry& e) {
    if ((e.flags & 1U) != 0) return fail(e.local, fmt::format("member '{}' is encrypted", e.name));
    if (e.local > bytes_.size() || bytes_.size() - e.local < kLocalBytes ||
        at<std::uint32_t>(bytes_, e.local) != kLocalMagic)
      return fail(e.local, fmt::format("member '{}' is not where the directory says", e.name));
    const std::size_t begin = e.local + kLocalBytes + at<std::uint16_t>(bytes_, e.local + 26) +
                              at<std::uint16_t>(bytes_, e.local + 28);
    if (begin > bytes_.size() || bytes_.size() - begin < e.packed)
      return fail(e.local, fmt::format("member '{}' reaches behind the end", e.name));
    if (e.unpacked > left_)
      return error(Code::kExhausted, "[data] {}, offset {}: the archive holds more than the limit; split it",
                   source_, e.local);
    left_ -= e.unpacked;
    const ByteView packed = bytes_.subspan(begin, e.packed);
    Bytes out;
    if (e.method == 0) {
      if (e.packed != e.unpacked)
        return fail(e.local, fmt::format("member '{}' is stored with two sizes", e.name));
      out.assign(packed.begin(), packed.end());
    } else if (e.method == 8) {
      TR_ASSIGN_OR_RETURN(out, inflate_raw(packed, e.unpacked, source_, begin));
    } else {
      return fail(e.local,
                  fmt::format("member '{}' uses compression method {}, expected 0 or 8", e.name, e.method));
    }
    if (crc32_of(out) != e.crc) return fail(begin, fmt::format("member '{}' has a wrong checksum", e.name));
    return out;
  }

  ByteView bytes_;
  std::string_view source_;
  std::size_t left_;
};

}  // namespace

Result<std::vector<ZipMember>> parse_zip(ByteView bytes, std::string_view source, std::size_t max_bytes) {
  return ZipReader(bytes, source, max_bytes).members();
}

}  // namespace trireme::data
