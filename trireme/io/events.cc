// Framing of records: TFRecord, each length and each content followed by a masked CRC32C. Content: the
// protocol buffer message tensorflow.Event, of which a scalar needs few fields:
//   Event    1 wall_time (double)  2 step (int64)  3 file_version (string)  5 summary (Summary)
//   Summary  1 value (repeated Value)        Value  1 tag (string)  2 simple_value (float)
#include "trireme/io/events.h"

#include <algorithm>
#include <bit>

#include "trireme/base/crc32c.h"

namespace trireme::io {
namespace {

using runtime::Task;

constexpr std::string_view kVersion = "brain.Event:2";
constexpr std::string_view kPrefix = "events.out.tfevents.", kSuffix = ".trireme";
constexpr std::size_t kLengthBytes = 8, kCrcBytes = 4;

enum class Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// A sum over bytes that hold sums themselves is a poor check, hence the rotation and the constant.
std::uint32_t masked_crc(ByteView bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

void put_varint(Bytes& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<std::byte>((value & 0x7FU) | 0x80U));
  out.push_back(static_cast<std::byte>(value));
}

void put_key(Bytes& out, std::uint32_t field, Wire wire) {
  put_varint(out, (field << 3U) | static_cast<std::uint32_t>(wire));
}

void put_bytes(Bytes& out, std::uint32_t field, ByteView bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put_record(Bytes& out, ByteView content) {
  Bytes length;
  append_le(length, static_cast<std::uint64_t>(content.size()));
  out.insert(out.end(), length.begin(), length.end());
  append_le(out, masked_crc(length));
  out.insert(out.end(), content.begin(), content.end());
  append_le(out, masked_crc(content));
}

bool take_varint(ByteView& in, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(in.front());
    in = in.subspan(1);
    value |= (byte & 0x7FU) << shift;
    if (byte < 0x80U) return true;
  }
  return false;
}

// A field of a message: its number and its value, a number or bytes.
struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::kVarint;
  std::uint64_t bits = 0;  // of the three wire types that are numbers
  ByteView bytes;
};

bool take_field(ByteView& in, Field& field) {
  std::uint64_t key = 0;
  if (!take_varint(in, key)) return false;
  field.number = key >> 3U;
  field.wire = static_cast<Wire>(key & 7U);
  std::uint32_t low = 0;
  switch (field.wire) {
    case Wire::kVarint:
      return take_varint(in, field.bits);
    case Wire::kFixed64:
      return take_le(in, field.bits);
    case Wire::kFixed32:
      if (!take_le(in, low)) return false;
      field.bits = low;
      return true;
    case Wire::kBytes:
      if (!take_varint(in, field.bits) || field.bits > in.size()) return false;
      field.bytes = in.first(field.bits);
      in = in.subspan(field.bits);
      return true;
  }
  return false;
}

bool read_value(ByteView in, ScalarEvent& event, bool& is_scalar) {
  for (Field f; !in.empty();) {
    if (!take_field(in, f)) return false;
    if (f.number == 1 && f.wire == Wire::kBytes) event.tag = as_text(f.bytes);
    if (f.number == 2 && f.wire == Wire::kFixed32) {
      event.value = std::bit_cast<float>(static_cast<std::uint32_t>(f.bits));
      is_scalar = true;
    }
  }
  return true;
}

bool read_event(ByteView in, EventFile::Record& record, EventFile& out) {
  double wall_time = 0;
  std::vector<ByteView> summaries;
  for (Field f; !in.empty();) {
    if (!take_field(in, f)) return false;
    if (f.number == 1 && f.wire == Wire::kFixed64) wall_time = std::bit_cast<double>(f.bits);
    if (f.number == 2 && f.wire == Wire::kVarint) record.step = static_cast<std::int64_t>(f.bits);
    if (f.number == 3 && f.wire == Wire::kBytes) record.is_header = true;
    if (f.number == 5 && f.wire == Wire::kBytes) summaries.push_back(f.bytes);
  }
  for (ByteView summary : summaries)
    for (Field f; !summary.empty();) {
      if (!take_field(summary, f)) return false;
      if (f.number != 1 || f.wire != Wire::kBytes) continue;
      ScalarEvent event;
      bool is_scalar = false;
      if (!read_value(f.bytes, event, is_scalar)) return false;
      event.step = record.step;
      event.wall_time = wall_time;
      if (is_scalar) out.scalars.push_back(std::move(event));
    }
  return true;
}

// The content of the record at the front of `in`, or nothing when it is torn or damaged.
bool take_record(ByteView& in, ByteView& content) {
  ByteView rest = in;
  std::uint64_t bytes = 0;
  std::uint32_t length_crc = 0, content_crc = 0;
  if (!take_le(rest, bytes) || !take_le(rest, length_crc)) return false;
  if (length_crc != masked_crc(in.first(kLengthBytes))) return false;
  if (rest.size() < kCrcBytes || bytes > rest.size() - kCrcBytes) return false;
  content = rest.first(bytes);
  rest = rest.subspan(bytes);
  if (!take_le(rest, content_crc) || content_crc != masked_crc(content)) return false;
  in = rest;
  return true;
}

Bytes kept_records(ByteView bytes, std::int64_t last_step, const EventWriter::ComesAgain& comes_again) {
  Bytes kept;
  for (const EventFile::Record& r : read_events(bytes).records)
    if (r.is_header || r.step < last_step || (r.step == last_step && !(comes_again && comes_again(r.tag))))
      kept.insert(kept.end(), bytes.begin() + static_cast<std::ptrdiff_t>(r.begin),
                  bytes.begin() + static_cast<std::ptrdiff_t>(r.end));
  return kept;
}

double seconds_of(std::int64_t unix_ns) { return static_cast<double>(unix_ns) * 1e-9; }

}  // namespace

Bytes event_file_header(double wall_time) {
  Bytes event, out;
  put_key(event, 1, Wire::kFixed64);
  append_le(event, wall_time);
  put_bytes(event, 3, as_bytes(kVersion));
  put_record(out, event);
  return out;
}

void append_scalar(Bytes& out, const ScalarEvent& e) {
  Bytes value, summary, event;
  put_bytes(value, 1, as_bytes(e.tag));
  put_key(value, 2, Wire::kFixed32);
  append_le(value, e.value);
  put_bytes(summary, 1, value);
  put_key(event, 1, Wire::kFixed64);
  append_le(event, e.wall_time);
  put_key(event, 2, Wire::kVarint);
  put_varint(event, static_cast<std::uint64_t>(e.step));
  put_bytes(event, 5, summary);
  put_record(out, event);
}

EventFile read_events(ByteView bytes) {
  EventFile out;
  ByteView rest = bytes, content;
  for (;;) {
    EventFile::Record record;
    record.begin = bytes.size() - rest.size();
    const std::size_t scalars = out.scalars.size();
    if (!take_record(rest, content) || !read_event(content, record, out)) {
      out.scalars.resize(scalars);
      return out;
    }
    if (out.scalars.size() > scalars) record.tag = out.scalars.back().tag;
    record.end = out.valid_bytes = bytes.size() - rest.size();
    out.records.push_back(record);
  }
}

EventWriter::EventWriter(runtime::Runtime& rt, std::string dir) : rt_(rt), dir_(std::move(dir)) {}

Task<Status> EventWriter::open(std::int64_t last_step, ComesAgain comes_again) {
  Result<std::vector<std::string>> names = co_await rt_.files().list(dir_);
  if (!names.ok()) co_return names.status();
  std::string found;
  for (const std::string& name : *names)
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) found = name;
  Bytes old, content;
  if (!found.empty()) {
    Result<Bytes> read = co_await rt_.files().read(dir_ + "/" + found);
    if (!read.ok()) co_return read.status();
    old = std::move(*read);
    content = kept_records(old, last_step, comes_again);
  }
  const std::int64_t now = rt_.unix_time_ns();
  if (found.empty()) found = fmt::format("{}{}{}", kPrefix, now / kSecond, kSuffix);
  if (content.empty()) content = event_file_header(seconds_of(now));
  const std::string path = dir_ + "/" + found;
  if (content != old) TR_CO_RETURN_IF_ERROR(co_await rt_.files().write_atomic(path, content));
  path_ = path;
  good_bytes_ = content.size();
  torn_ = false;
  co_return Status();
}

void EventWriter::add_scalar(std::string_view tag, std::int64_t step, double value) {
  ScalarEvent event;
  event.tag = tag;
  event.step = step;
  event.wall_time = seconds_of(rt_.unix_time_ns());
  event.value = static_cast<float>(value);
  append_scalar(pending_, event);
}

Task<Status> EventWriter::flush() {
  if (path_.empty())
    co_return error(Code::kInvalid, "[events] flush() before open() of the event file in {}", dir_);
  if (pending_.empty()) co_return Status();
  Bytes batch = std::exchange(pending_, {});
  Status done;
  if (!torn_) {
    done = co_await rt_.files().append(path_, batch);
  } else {
    Result<Bytes> read = co_await rt_.files().read(path_);
    done = read.status();
    if (done.ok()) {
      Bytes whole = std::move(*read);
      whole.resize(std::min<std::size_t>(whole.size(), good_bytes_));
      whole.insert(whole.end(), batch.begin(), batch.end());
      done = co_await rt_.files().write_atomic(path_, whole);
    }
  }
  torn_ = !done.ok();
  if (done.ok()) good_bytes_ += batch.size();
  if (!done.ok()) {
    batch.insert(batch.end(), pending_.begin(), pending_.end());
    pending_ = std::move(batch);
  }
  co_return done;
}

}  // namespace trireme::io
