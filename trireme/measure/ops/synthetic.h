// Tensors with which graphs are measured: values of the size that training has, so that no zeros, denormals
// or infinities are computed at other speeds, and indices in range.
#pragma once

#include <string>

#include "trireme/exec/executor.h"
#include "trireme/prepare/prepared.h"

namespace trireme::measure {

// What an input of a job's graph is fed: samples and activations around 0, gradients of thousandths, labels
// and tokens below the number of classes.
Result<Tensor> synthetic_input(const std::string& name, const TensorType& type,
                               const prepare::Prepared& prepared);
// As training begins: weights by their initialiser; states of optimizers small and positive.
Result<Tensor> synthetic_variable(const std::string& name, const TensorType& type,
                                  const prepare::Prepared& prepared);

}  // namespace trireme::measure
