// Pixels: the bytes of a set's samples, its own or a view of a mapped file that all ranks of a host share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "trireme/base/check.h"

namespace trireme::data {

class Pixels {
 public:
  Pixels() = default;
  Pixels(std::initializer_list<std::uint8_t> bytes) : own_(bytes) {}

  const std::uint8_t* data() const { return owner_ ? shared_.data() : own_.data(); }
  std::size_t size() const { return owner_ ? shared_.size() : own_.size(); }
  bool empty() const { return size() == 0; }
  std::span<const std::uint8_t> view() const { return {data(), size()}; }
  const std::uint8_t& operator[](std::size_t i) const { return data()[i]; }
  const std::uint8_t* begin() const { return data(); }
  const std::uint8_t* end() const { return data() + size(); }
  bool is_shared() const { return owner_ != nullptr; }
  friend bool operator==(const Pixels& a, const Pixels& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  // Filling: only while they are the set's own.
  std::span<std::uint8_t> writable() {
    TR_CHECK(owner_ == nullptr, "pixels of a mapped file are not written");
    return own_;
  }
  void resize(std::size_t n) {
    TR_CHECK(owner_ == nullptr, "pixels of a mapped file are not resized");
    own_.resize(n);
  }
  void append(std::span<const std::uint8_t> more) {
    TR_CHECK(owner_ == nullptr, "pixels of a mapped file do not grow");
    own_.insert(own_.end(), more.begin(), more.end());
  }
  // A view whose memory `owner` keeps.
  void share(std::span<const std::uint8_t> bytes, std::shared_ptr<const void> owner) {
    TR_CHECK(owner != nullptr, "shared pixels have an owner");
    own_ = {};
    shared_ = bytes;
    owner_ = std::move(owner);
  }

 private:
  std::vector<std::uint8_t> own_;
  std::span<const std::uint8_t> shared_;
  std::shared_ptr<const void> owner_;
};

}  // namespace trireme::data
