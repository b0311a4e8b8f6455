// What every text of pooling gets from pool.cc.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

// What a text of windows does with the elements of one, or a text of spreading with its gradient.
#pragma text kPoolModesText
enum { kMax, kPick, kBoth, kWhere, kAverage, kRoot };

#pragma text end
typedef float In;
typedef float Given;
typedef float Out;
typedef float A;
typedef int Int;   // indices within a plane
typedef u8 Where;  // which tap of a window is its maximum; of large windows its place in the plane
constexpr Int kWindowH = 2, kWindowW = 2, kStrideH = 2, kStrideW = 2, kPadH = 0, kPadW = 0;
constexpr int kMode = kMax, kUnroll = 16;
constexpr bool kSmall = true, kPadded = false, kWholeCount = true;
