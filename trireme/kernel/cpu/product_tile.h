// The inner loop of f32 products, for processors with AVX-512: a tile of C from packed panels of A and B.
#pragma once

#include <cstdint>

namespace trireme::kernel {

constexpr std::int64_t kTileRows = 14, kTileColumns = 32;  // 28 of the 32 registers are sums

bool has_product_tile();

// C[kTileRows, kTileColumns] = (adds ? C : 0) + A B with fused multiply-adds in the order of k. a is
// [k, kTileRows] and b [k, kTileColumns], both dense; rows of C are `ldc` elements apart.
void product_tile(const float* a, const float* b, std::int64_t k, bool adds, float* c, std::int64_t ldc);

}  // namespace trireme::kernel
