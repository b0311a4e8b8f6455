// TensorBoard event files: scalars by tag and step. Layout: docs/format_checkpoint.md section 10.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/bytes.h"
#include "trireme/runtime/files.h"

namespace trireme::io {

struct ScalarEvent {
  std::string tag;
  std::int64_t step = 0;
  double wall_time = 0;  // seconds since 1970
  float value = 0;
};

// Records: bytes in, bytes out. The first of a file says what it is.
Bytes event_file_header(double wall_time);
void append_scalar(Bytes& out, const ScalarEvent& event);

// What the bytes of an event file hold. Safe on hostile bytes: reading ends before the first record that is
// torn or damaged.
struct EventFile {
  struct Record {
    std::uint64_t begin = 0, end = 0;  // in the file
    std::int64_t step = 0;
    std::string tag;  // of its last scalar
    bool is_header = false;
  };
  std::vector<Record> records;
  std::vector<ScalarEvent> scalars;
  std::uint64_t valid_bytes = 0;  // of whole records from the beginning
};
EventFile read_events(ByteView bytes);

// The event file of a run. Belongs to the loop of one Runtime; one open() or flush() at a time.
class EventWriter {
 public:
  // Events lie in `dir`, which is there.
  EventWriter(runtime::Runtime& rt, std::string dir);

  // Goes on with the newest event file of ours in the folder: a torn end and records of steps beyond
  // `last_step` are cut off, and those of `last_step` itself whose tag comes again. Without a file a new one
  // begins.
  using ComesAgain = std::function<bool(std::string_view tag)>;
  runtime::Task<Status> open(std::int64_t last_step, ComesAgain comes_again = {});
  // Kept in memory until flush().
  void add_scalar(std::string_view tag, std::int64_t step, double value);
  // Appends. After a failure nothing is lost: the next flush writes it again, behind the last whole record.
  runtime::Task<Status> flush();

  const std::string& path() const { return path_; }  // empty before open()

 private:
  runtime::Runtime& rt_;
  std::string dir_, path_;
  Bytes pending_;
  std::uint64_t good_bytes_ = 0;  // of the file
  bool torn_ = false;             // the file may end in a part of a failed write
};

}  // namespace trireme::io
