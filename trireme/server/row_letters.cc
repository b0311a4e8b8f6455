#include "trireme/server/row_letters.h"

#include <algorithm>
#include <cstring>

namespace trireme::server {

net::View RowLetter::pack(const Tensor& values) {
  const auto row_bytes = static_cast<std::size_t>(row) * sizeof(float);
  const std::size_t bytes = static_cast<std::size_t>(num_rows) * (sizeof(std::int64_t) + row_bytes);
  if (values.is_phantom() || bytes == 0) return {nullptr, bytes};
  memory.resize(bytes);
  const std::size_t head = numbers.size() * sizeof(std::int64_t);
  std::memcpy(memory.data(), numbers.data(), head);
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(memory.data() + head + i * row_bytes, values.data<float>() + from[i] * row, row_bytes);
  return {memory.data(), bytes};
}

net::View RowLetter::pack_numbers() {
  const std::size_t bytes = static_cast<std::size_t>(num_rows) * sizeof(std::int64_t);
  return {numbers.empty() ? nullptr : reinterpret_cast<std::byte*>(numbers.data()), bytes};
}

net::View RowLetter::room() {
  const std::size_t bytes = static_cast<std::size_t>(num_rows * row) * sizeof(float);
  if (numbers.empty()) return {nullptr, bytes};
  memory.resize(bytes);
  return {memory.data(), bytes};
}

void RowLetter::unpack(const Tensor& into) const {
  if (into.is_phantom()) return;
  const auto row_bytes = static_cast<std::size_t>(row) * sizeof(float);
  for (std::size_t i = 0; i < from.size(); ++i)
    std::memcpy(into.data<float>() + from[i] * row, memory.data() + i * row_bytes, row_bytes);
}

std::vector<RowLetter> split_rows(const Key& key, std::span<const Slice> slices, const Tensor& rows) {
  const std::vector<Key::Part> parts = parts_of(key);
  const auto part = std::find_if(parts.begin(), parts.end(), [](const Key::Part& p) { return p.row > 1; });
  std::vector<RowLetter> letters;
  std::vector<std::int64_t> first, end;  // rows of the part, per slice
  for (const Slice& s : slices) {
    RowLetter& letter = letters.emplace_back();
    letter.slice = s;
    letter.row = part->row;
    const std::int64_t begin = std::clamp(s.begin - part->offset, std::int64_t{0}, part->count);
    first.push_back(begin / part->row);
    end.push_back(std::clamp(s.end - part->offset, begin, part->count) / part->row);
  }
  const std::int64_t n = rows.shape().num_elems();
  if (rows.is_phantom()) {  // as if they were spread evenly
    const std::int64_t all = part->count / part->row;
    for (std::size_t s = 0; s < letters.size(); ++s)
      letters[s].num_rows = n * end[s] / all - n * first[s] / all;
    return letters;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t r = rows.data<std::int64_t>()[i];
    for (std::size_t s = 0; s < letters.size(); ++s)
      if (r >= first[s] && r < end[s]) {
        letters[s].numbers.push_back(r - first[s]);
        letters[s].from.push_back(i);
      }
  }
  for (RowLetter& letter : letters) letter.num_rows = static_cast<std::int64_t>(letter.numbers.size());
  return letters;
}

}  // namespace trireme::server
