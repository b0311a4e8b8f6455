#include "trireme/runtime/files.h"

namespace trireme::runtime {

FileView view_of(Bytes bytes) {
  auto owner = std::make_shared<const Bytes>(std::move(bytes));
  const ByteView view = *owner;
  return {view, std::move(owner)};
}

Task<Result<FileView>> Files::map(std::string path) {
  Result<Bytes> bytes = co_await read(std::move(path));
  if (!bytes.ok()) co_return bytes.status();
  co_return view_of(std::move(*bytes));
}

// The sync before the rename orders content before name; the one of the directory makes the new name last.
Task<Status> Files::write_atomic(std::string given, ByteView bytes) {
  TR_CO_ASSIGN_OR_RETURN(const Output output, co_await find_output(std::move(given)));
  const std::string& path = output.path;
  if (output.in_place) co_return co_await write(path, bytes);
  const std::string temporary = path + ".tmp";
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  Status done = co_await write(temporary, bytes);
  if (done.ok()) done = co_await sync(temporary);
  if (done.ok()) done = co_await rename(temporary, path);
  if (!done.ok()) {
    (void)co_await remove_all(temporary);
    co_return done;
  }
  co_return co_await sync(directory);
}

Task<Status> Files::check_output(std::string path) {
  const Result<Output> output = co_await find_output(std::move(path));
  co_return output.status();
}

Task<Result<Files::Output>> Files::find_output(std::string path) {
  co_return Output{std::move(path), /*in_place=*/false};
}

}  // namespace trireme::runtime
