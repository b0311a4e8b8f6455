// A hash of what a data source holds: equal data, equal hash, whatever part of it a job uses and however it
// is normalised. A run keeps it to notice data that changed.
#pragma once

#include <string>
#include <string_view>

#include "trireme/data/dataset.h"

namespace trireme::data {

// SHA-256 (hex) of a set as its loader gives it, before parts, limits and normalisation: values, labels,
// classes, and where the test part begins. For sets that keep their values.
std::string content_sha256(const Dataset& set);

// The same where a short name or another hash stands for the values: what is drawn by code, or files that
// were hashed already. The set's classes belong to the content.
std::string named_content_sha256(const Dataset& set, std::string_view name);

}  // namespace trireme::data
