// The binary form of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features from tiny
// images", 2009): records of one label byte (CIFAR-100: coarse, then fine) and 3 x 32 x 32 bytes, plane by
// plane.
#pragma once

#include "trireme/data/dataset.h"

namespace trireme::data {

enum class CifarKind : std::uint8_t { k10, k100Fine, k100Coarse };

int num_classes(CifarKind kind);

// Appends the records of one file. kCorrupt names `source` and the offset of a label out of range or of a
// record that ends early.
Status append_cifar(Dataset& set, CifarKind kind, ByteView bytes, std::string_view source);

}  // namespace trireme::data
