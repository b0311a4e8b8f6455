// What looks wrong in data: notes for the user, and labels that are refused because they are no classes.
// Notes never change what is trained.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/read/csv.h"
#include "trireme/data/source.h"

namespace trireme::data {

using Notes = std::vector<std::string>;

// Columns of a table that are constant, count the rows (an index), or have one value far beyond all others.
void note_columns(const CsvTable& table, Notes& notes);

// Samples of an array, already in the set: channels last, or values that are not normalised and large.
void note_samples(const Dataset& set, const TensorType& array, std::string_view source, Notes& notes);

// One class, or very few samples to train on. For a set whose parts are made.
void note_parts(Dataset& set, const DataSpec& spec);

// kInvalid: the labels of a table are numbers with so many different values that they are measurements, not
// classes. `names` are the distinct labels.
Status check_targets(std::span<const std::string> names, std::int64_t num_rows, std::string_view source);

// The same for class numbers. kInvalid as well: numbers so large that a class for each up to the largest
// makes no sense; a note: many numbers are skipped.
Status check_labels_used(std::span<const std::int32_t> labels, std::string_view source, Notes& notes);

}  // namespace trireme::data
