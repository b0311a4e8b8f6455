// A move-only callable with 48 bytes of inline storage: callbacks of loops and networks without an
// allocation.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "trireme/base/check.h"

namespace trireme {

template <typename Signature>
class Function;

template <typename R, typename... Args>
class Function<R(Args...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  template <typename F>
  requires(!std::is_same_v<std::decay_t<F>, Function> && std::is_invocable_r_v<R, std::decay_t<F>&, Args...>)
      Function(F&& f) {  // NOLINT(google-explicit-constructor)
    using D = std::decay_t<F>;
    if constexpr (sizeof(D) <= kInlineBytes && alignof(D) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<D>) {
      new (storage_) D(std::forward<F>(f));
      table_ = &kInline<D>;
    } else {
      new (storage_) D*(new D(std::forward<F>(f)));
      table_ = &kHeap<D>;
    }
  }

  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Function() { reset(); }

  explicit operator bool() const { return table_ != nullptr; }
  R operator()(Args... args) {
    TR_CHECK(table_ != nullptr, "call of an empty Function");
    return table_->call(storage_, std::forward<Args>(args)...);
  }
  void reset() {
    if (table_) std::exchange(table_, nullptr)->destroy(storage_);
  }

 private:
  static constexpr std::size_t kInlineBytes = 48;
  struct Table {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to);  // leaves nothing to destroy in `from`
    void (*destroy)(void*);
  };
  template <typename D>
  static constexpr Table kInline{
      [](void* s, Args&&... args) -> R { return (*static_cast<D*>(s))(std::forward<Args>(args)...); },
      [](void* from, void* to) {
        new (to) D(std::move(*static_cast<D*>(from)));
        static_cast<D*>(from)->~D();
      },
      [](void* s) { static_cast<D*>(s)->~D(); }};
  template <typename D>
  static constexpr Table kHeap{
      [](void* s, Args&&... args) -> R { return (**static_cast<D**>(s))(std::forward<Args>(args)...); },
      [](void* from, void* to) { new (to) D*(*static_cast<D**>(from)); },
      [](void* s) { delete *static_cast<D**>(s); }};

  void take(Function& other) {
    table_ = std::exchange(other.table_, nullptr);
    if (table_) table_->move(other.storage_, storage_);
  }

  const Table* table_ = nullptr;
  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
};

using Callback = Function<void()>;

}  // namespace trireme
