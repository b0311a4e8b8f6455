#include <cstring>

#include "trireme/server/service.h"

namespace trireme::server {

using runtime::Task;

Status Service::make_products(KeptSlice& kept) {
  if (!options_.make_product)
    return error(Code::kInvalid, "[server] slice {} is pushed as factors: expected a product for it",
                 kept.stored().slice.id);
  for (const FactorSlice::Piece& piece : kept.factors->pieces) {
    TR_ASSIGN_OR_RETURN(const auto compiled, options_.make_product(kept.stored().slice.key, piece));
    TR_ASSIGN_OR_RETURN(auto execution, exec::make_execution(rt_, compiled, {}));
    kept.products.push_back(std::move(execution));
  }
  return {};
}

// The push becomes a dense one. What lies between the parts is zero, as in a gradient.
Task<Status> Service::multiply(KeptSlice& slice, Push& push) {
  const StoredSlice& stored = slice.stored();
  TR_CO_ASSIGN_OR_RETURN(const Loan values, pool_.take(stored.num_elems()));
  std::int64_t end = 0;
  const auto clear_up_to = [&](std::int64_t to) {
    if (!rt_.is_phantom()) std::fill(values->data<float>() + end, values->data<float>() + to, 0.0F);
  };
  for (std::size_t i = 0; i < slice.products.size(); ++i) {
    const FactorSlice::Piece& piece = slice.factors->pieces[i];
    exec::Execution& product = *slice.products[i];
    const auto view = [&](TensorType type, std::int64_t at) {
      return Tensor(push.values->buffer(), type,
                    push.values->offset_bytes() + static_cast<std::size_t>(at) * sizeof(float));
    };
    TR_CO_RETURN_IF_ERROR(product.feed("u", view(piece.u_type(), piece.u_at)));
    TR_CO_RETURN_IF_ERROR(product.feed("v", view(piece.v_type(), piece.v_at)));
    TR_CO_RETURN_IF_ERROR(co_await product.run());
    clear_up_to(piece.to);
    TR_CO_ASSIGN_OR_RETURN(const Tensor made, product.fetch("grad"));
    const auto bytes = static_cast<std::size_t>(piece.count()) * sizeof(float);
    runtime::ComputeFn copy = [&](runtime::ComputeContext&) {
      std::memcpy(values->data<float>() + piece.to, made.raw(), bytes);
    };
    co_await short_pass(rt_, pass_cost(0, 2 * static_cast<double>(bytes)), std::move(copy), "server product");
    end = piece.to + piece.count();
  }
  clear_up_to(stored.num_elems());
  push.values = values;
  push.is_factors = false;
  ++stats_.factor_pushes;
  co_return Status();
}

}  // namespace trireme::server
