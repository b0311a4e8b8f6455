// Layers whose elements look at a neighbourhood: blur, contrast normalisation, locally connected.
#pragma once

#include "trireme/kernel/cuda/prelude.cu"

typedef float T;
// A blur has weights of its window, kHalf elements on either side of the middle.
constexpr int kHalf = 1;
__constant__ double kRow[] = {0.25, 0.5, 0.25};
// A locally connected layer has its geometry here, so that divisions by it are cheap.
constexpr i64 kN = 1, kChannels = 1, kH = 4, kW = 4, kO = 1, kC = 1, kKh = 1, kKw = 1;
constexpr i64 kOh = 4, kOw = 4, kStrideH = 1, kStrideW = 1, kPadH = 0, kPadW = 0;
constexpr i64 kDilationH = 1, kDilationW = 1, kGroups = 1;

#pragma text kBlurredText
// Weights of the window are a constant of the text: kRow, kHalf elements on either side of the middle.
typedef acc_t<T> A;

template <class S>
__device__ A blurred(const S* plane, int h, int w, int i, int j) {
  const int top = max(i - kHalf, 0), bottom = min(i + kHalf + 1, h);
  const int left = max(j - kHalf, 0), right = min(j + kHalf + 1, w);
  A total = 0;
  for (int r = top; r < bottom; ++r)
    for (int c = left; c < right; ++c)
      total += (A)(kRow[r - i + kHalf] * kRow[c - j + kHalf]) * (A)load_acc(plane[(i64)r * w + c]);
  return total;
}

#pragma text kBlurText
extern "C" __global__ void blur(const T* __restrict__ x, T* __restrict__ y, i64 planes, int h, int w) {
  const i64 pixels = (i64)h * w;
  for (i64 at = first_index(); at < planes * pixels; at += grid_step()) {
    const i64 p = at % pixels;
    y[at] = store_acc<T>(blurred(x + (at - p), h, w, (int)(p / w), (int)(p % w)));
  }
}

#pragma text kContrastMeansText
// Means over channels of x [samples, channels, h, w].
extern "C" __global__ void contrast_means(const T* __restrict__ x, A* __restrict__ means, i64 samples,
                                          i64 channels, i64 pixels) {
  for (i64 at = first_index(); at < samples * pixels; at += grid_step()) {
    const T* own = x + at / pixels * channels * pixels + at % pixels;
    A total = 0;
    for (i64 c = 0; c < channels; ++c) total += load_acc(own[c * pixels]);
    means[at] = total / (A)channels;
  }
}

#pragma text kContrastSquaresText
// Blurred means, and the mean square of what is left of x without them.
extern "C" __global__ void contrast_squares(const T* __restrict__ x, const A* __restrict__ means,
                                            A* __restrict__ local, A* __restrict__ squares, i64 samples,
                                            i64 channels, int h, int w) {
  const i64 pixels = (i64)h * w;
  for (i64 at = first_index(); at < samples * pixels; at += grid_step()) {
    const i64 p = at % pixels;
    const A mean = blurred(means + (at - p), h, w, (int)(p / w), (int)(p % w));
    const T* own = x + at / pixels * channels * pixels + p;
    A total = 0;
    for (i64 c = 0; c < channels; ++c) {
      const A v = load_acc(own[c * pixels]) - mean;
      total += v * v;
    }
    local[at] = mean;
    squares[at] = total / (A)channels;
  }
}

#pragma text kContrastResultText
extern "C" __global__ void contrast_result(const T* __restrict__ x, const A* __restrict__ local,
                                           const A* __restrict__ squares, T* __restrict__ y, i64 samples,
                                           i64 channels, int h, int w, double threshold) {
  const i64 pixels = (i64)h * w;
  const A least = (A)(threshold * threshold);
  for (i64 at = first_index(); at < samples * pixels; at += grid_step()) {
    const i64 p = at % pixels, first = at / pixels * channels * pixels + p;
    const A square = blurred(squares + (at - p), h, w, (int)(p / w), (int)(p % w));
    const A deviation = sqrt(least < square ? square : least), mean = local[at];
    for (i64 c = 0; c < channels; ++c)
      y[first + c * pixels] = store_acc<T>((load_acc(x[first + c * pixels]) - mean) / deviation);
  }
}

#pragma text kConnectedText
// Geometry is a constant of the text: divisions by it are cheap. Samples are the fastest dimension of the
// threads, so that a warp reads each element of the filter once: the filter is larger than the images.
typedef acc_t<T> A;
constexpr i64 kFilter = kC * kKh * kKw;  // elements of one position and output channel

// The output position whose tap k reads input position `at`, or -1.
__device__ i64 position_reading(i64 at, i64 k, i64 stride, i64 pad, i64 dilation, i64 out) {
  const i64 from = at + pad - k * dilation;
  return from < 0 || from % stride != 0 || from / stride >= out ? -1 : from / stride;
}

#pragma text kConnectedForwardText
extern "C" __global__ void connected(const T* __restrict__ x, const T* __restrict__ filter,
                                     T* __restrict__ y) {
  for (i64 at = first_index(); at < kN * kO * kOh * kOw; at += grid_step()) {
    const i64 n = at % kN, ow = at / kN % kOw, oh = at / (kN * kOw) % kOh, o = at / (kN * kOw * kOh);
    const T* image = x + (n * kChannels + o / (kO / kGroups) * kC) * kH * kW;
    const T* taps = filter + ((oh * kOw + ow) * kO + o) * kFilter;
    A total = 0;
#pragma unroll 1
    for (i64 c = 0; c < kC; ++c) {
#pragma unroll 1
      for (i64 kh = 0; kh < kKh; ++kh) {
        const i64 ih = oh * kStrideH - kPadH + kh * kDilationH;
        if (ih < 0 || ih >= kH) continue;
        for (i64 kw = 0; kw < kKw; ++kw) {
          const i64 iw = ow * kStrideW - kPadW + kw * kDilationW;
          if (iw < 0 || iw >= kW) continue;
          total += load_acc(taps[(c * kKh + kh) * kKw + kw]) * load_acc(image[(c * kH + ih) * kW + iw]);
        }
      }
    }
    y[((n * kO + o) * kOh + oh) * kOw + ow] = store_acc<T>(total);
  }
}

#pragma text kConnectedInputGradText
extern "C" __global__ void connected_input_grad(const T* __restrict__ filter, const T* __restrict__ dy,
                                                T* __restrict__ dx) {
  constexpr i64 kPerGroup = kO / kGroups;
  for (i64 at = first_index(); at < kN * kChannels * kH * kW; at += grid_step()) {
    const i64 n = at % kN, iw = at / kN % kW, ih = at / (kN * kW) % kH, channel = at / (kN * kW * kH);
    const i64 first = channel / kC * kPerGroup, c = channel % kC;
    A total = 0;
#pragma unroll 1
    for (i64 o = first; o < first + kPerGroup; ++o) {
#pragma unroll 1
      for (i64 kh = 0; kh < kKh; ++kh) {
        const i64 oh = position_reading(ih, kh, kStrideH, kPadH, kDilationH, kOh);
        if (oh < 0) continue;
        for (i64 kw = 0; kw < kKw; ++kw) {
          const i64 ow = position_reading(iw, kw, kStrideW, kPadW, kDilationW, kOw);
          if (ow < 0) continue;
          const A t = load_acc(filter[((oh * kOw + ow) * kO + o) * kFilter + (c * kKh + kh) * kKw + kw]);
          total += t * load_acc(dy[((n * kO + o) * kOh + oh) * kOw + ow]);
        }
      }
    }
    dx[((n * kChannels + channel) * kH + ih) * kW + iw] = store_acc<T>(total);
  }
}

#pragma text kConnectedFilterGradText
extern "C" __global__ void connected_filter_grad(const T* __restrict__ x, const T* __restrict__ dy,
                                                 T* __restrict__ df) {
  for (i64 at = first_index(); at < kOh * kOw * kO * kFilter; at += grid_step()) {
    const i64 kw = at % kKw, kh = at / kKw % kKh, c = at / (kKw * kKh) % kC, o = at / kFilter % kO;
    const i64 ow = at / (kFilter * kO) % kOw, oh = at / (kFilter * kO * kOw);
    const i64 ih = oh * kStrideH - kPadH + kh * kDilationH, iw = ow * kStrideW - kPadW + kw * kDilationW;
    const i64 channel = o / (kO / kGroups) * kC + c;
    A total = 0;
    if (ih >= 0 && ih < kH && iw >= 0 && iw < kW) {
      const T* v = x + (channel * kH + ih) * kW + iw;
      const T* d = dy + (o * kOh + oh) * kOw + ow;
      for (i64 n = 0; n < kN; ++n)
        total += load_acc(v[n * kChannels * kH * kW]) * load_acc(d[n * kO * kOh * kOw]);
    }
    df[at] = store_acc<T>(total);
  }
}
