// Memory that several workers or local replicas read and write without order, on purpose: the weights of
// hogwild.cc and local_replicas.cc.
//
// The race: worker A reads a weight, worker B reads it, both add their step and write; one step is lost, and
// a forward pass may see some weights before and some after another worker's step. Hogwild's point is that
// training bears this where steps are small or sparse. What it relies on: an aligned f32 is read and written
// whole, which the machines we build for do.
//
// In C++ a race is undefined, so whoever touches such weights on the host outside a kernel does it through
// these functions: plain accesses in ordinary builds (so that they vectorise), relaxed atomics under
// ThreadSanitizer. Kernels, and copies by a transport, know nothing of this; so whoever makes a rule over
// such memory marks it, and ThreadSanitizer finds every race but those in it. Workers in processes of their
// own are invisible to each other's compiler and sanitizer.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#define TRIREME_RACY_ATOMICS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TRIREME_RACY_ATOMICS 1
#endif
#endif

#ifdef TRIREME_RACY_ATOMICS
// A function of the sanitizers' run time (tsan_interface_ann.cpp).
extern "C" void AnnotateBenignRaceSized(const char* file, int line, const volatile void* memory,
                                        std::size_t bytes, const char* why);
#endif

namespace trireme::agree {

// Races in [memory, memory + bytes) are meant. There is no way back: what lies there later is not checked
// either.
inline void mark_racy(const void* memory, std::size_t bytes) {
#ifdef TRIREME_RACY_ATOMICS
  if (memory != nullptr) AnnotateBenignRaceSized(__FILE__, __LINE__, memory, bytes, "weights without locks");
#else
  (void)memory, (void)bytes;
#endif
}

inline float racy_load(const float* from) {
#ifdef TRIREME_RACY_ATOMICS
  float value;
  __atomic_load(from, &value, __ATOMIC_RELAXED);
  return value;
#else
  return *from;
#endif
}

inline void racy_store(float* to, float value) {
#ifdef TRIREME_RACY_ATOMICS
  __atomic_store(to, &value, __ATOMIC_RELAXED);
#else
  *to = value;
#endif
}

// A read and a write, not one operation: steps of others in between are lost.
inline void racy_add(float* to, float step) { racy_store(to, racy_load(to) + step); }

// Racy memory into memory of one's own.
inline void racy_read(const float* from, float* to, std::int64_t num_elems) {
  for (std::int64_t i = 0; i < num_elems; ++i) to[i] = racy_load(from + i);
}

}  // namespace trireme::agree
