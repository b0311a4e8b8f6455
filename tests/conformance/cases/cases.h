// One file per family of cases; op_cases.cc joins them.
#pragma once

#include <utility>

#include "tests/conformance/op_cases.h"

namespace trireme::op::testing {

using Ints = std::vector<std::int64_t>;

inline Attrs one(std::string name, AttrValue v) { return {{std::move(name), std::move(v)}}; }
inline Attrs axes(Ints which, bool keep) { return {{"axes", std::move(which)}, {"keep_dims", keep}}; }
inline Attrs transposes(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }

void add_elementwise(std::vector<OpCase>& t);
void add_reduce(std::vector<OpCase>& t);
void add_array(std::vector<OpCase>& t);
void add_linalg(std::vector<OpCase>& t);
void add_conv(std::vector<OpCase>& t);
void add_nn(std::vector<OpCase>& t);
void add_sequence(std::vector<OpCase>& t);
void add_random(std::vector<OpCase>& t);
void add_update(std::vector<OpCase>& t);
void add_fused(std::vector<OpCase>& t);
void add_host(std::vector<OpCase>& t);

}  // namespace trireme::op::testing
