// Sheets: many small pictures in one, to look at. Small pictures are enlarged by whole factors.
#pragma once

#include "trireme/apply/predict.h"
#include "trireme/data/read/image.h"

namespace trireme::apply {

// Originals above their reconstructions, eight columns, in the values of the data set again. kInvalid: the
// samples are no pictures of 1 or 3 channels.
Result<data::Picture> reconstruction_sheet(const Reconstructions& reconstructions, const data::Dataset& data);

// The weights of every unit of the first layer as a picture: grey is 0, each unit scaled to its largest
// weight. For a dense layer over pictures and for a convolution of 1 or 3 channels; kInvalid otherwise.
Result<data::Picture> filter_sheet(const LoadedModel& model);

}  // namespace trireme::apply
