// Options of data kinds that several kinds or other folders read. An option of one kind is in the file of its
// loader. As job keys they are called data.<name>.
#pragma once

#include "trireme/base/option_spec.h"

namespace trireme::data {

inline constexpr OptionSpec kSampleShape{
    .name = "shape", .default_value = "", .doc = "images, synthetic: shape of a sample, such as 3x64x64."};
inline constexpr OptionSpec kLabel{
    .name = "label",
    .default_value = "",
    .doc = "csv: label column, by name or number (empty: the last one); cifar: fine or coarse."};

// ---- Tables, which `predict` reads as training did
inline constexpr std::string_view kHeaders[] = {"auto", "yes", "no"};
inline constexpr OptionSpec kHeader{
    .name = "header",
    .default_value = "auto",
    .doc =
        "csv: whether the first line is a header: yes, no, or auto (a header if the line cannot be a "
        "sample).",
    .range = {.choices = kHeaders}};
inline constexpr OptionSpec kSeparator{
    .name = "separator", .default_value = ",", .doc = "csv: the character between fields, or tab."};

// ---- Arrays, which `predict` reads as training did
inline constexpr std::string_view kPixelForms[] = {"bytes", "floats"};
inline constexpr OptionSpec kPixelForm{
    .name = "pixels",
    .default_value = "floats",
    .doc =
        "npy: bytes: integers from 0 to 255 of any type are image bytes and are normalized as such; floats: "
        "values are used as they are. Default: chosen by the data when training starts, otherwise floats.",
    .range = {.choices = kPixelForms}};

// ---- Texts
inline constexpr OptionSpec kContext{.name = "context",
                                     .default_value = 128,
                                     .doc = "text: tokens per sample.",
                                     .range = {.least = 1, .most = 1048576}};

}  // namespace trireme::data
