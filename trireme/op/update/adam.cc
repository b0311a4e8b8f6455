#include "trireme/op/update/adam.h"

#include <algorithm>
#include <cmath>

#include "trireme/op/detail/math.h"

namespace trireme::op::detail {

std::vector<AttrSpec> adam_attrs(double decay, std::string_view decay_doc) {
  return {{"beta1", 0.9, "decay rate of the first moment"},
          {"beta2", 0.999, "decay rate of the second moment"},
          {"eps", 1e-8, "added to the root"},
          {"weight_decay", decay, decay_doc},
          {"amsgrad", false, "divide by the largest second moment; false: max_moment2 has the shape [0]"},
          {"eps_hat", false, "add eps to the root before its bias is corrected"},
          {"bias_correction", true, "divide the moments by 1 - beta^t"},
          {"fixed_after", std::int64_t{0}, "steps after which the second moment stays as it is; 0: never"}};
}

Types infer_adam(TypeSpan in, const Attrs& attrs) {
  TR_RETURN_IF_ERROR(expect_not_negative(attrs, {"eps", "weight_decay"}));
  TR_RETURN_IF_ERROR(expect_share(attrs, {"beta1", "beta2"}));
  return infer_update(in, {{"moment1"}, {"moment2"}, {"max_moment2", attrs.get_bool("amsgrad")}});
}

SecondMoment second_moment(const Attrs& attrs, double t) {
  const double beta2 = attrs.get_float("beta2");
  const auto last = static_cast<double>(attrs.get_int("fixed_after"));
  const bool fixed = last > 0 && t > last;
  return {fixed ? 1 : beta2, std::sqrt(1 - std::pow(beta2, fixed ? last : t))};
}

void run_adam(KernelArgs& a, double shrink, double weight_decay) {
  const double beta1 = a.attrs.get_float("beta1");
  const bool amsgrad = a.attrs.get_bool("amsgrad"), eps_hat = a.attrs.get_bool("eps_hat");
  const auto t = static_cast<double>(step_of(a.in(6)));
  const bool corrects = a.attrs.get_bool("bias_correction");
  const double first = corrects ? 1 - std::pow(beta1, t) : 1;
  const SecondMoment second = second_moment(a.attrs, t);
  const double root2 = corrects ? second.root_bias : 1;
  const double rate = rate_of(a.in(5)) / first * (eps_hat ? root2 : 1);
  dispatch_float(a.in(0).dtype(), [&]<typename T>() {
    using A = Acc<T>;
    const A rest1 = static_cast<A>(1 - beta1), keep2 = static_cast<A>(second.kept);
    const A rest2 = static_cast<A>(1 - second.kept), root_bias = static_cast<A>(root2);
    const A lr = static_cast<A>(rate), eps = static_cast<A>(a.attrs.get_float("eps"));
    const A kept = static_cast<A>(shrink), decay = static_cast<A>(weight_decay);
    update_together<T, 5>(a, [&](const auto& at) {
      A w = *at[0], g = *at[4];
      if (shrink != 1) w *= kept;
      if (weight_decay != 0) g += decay * w;
      const A old1 = *at[1];
      const A moment1 = old1 + rest1 * (g - old1);
      A moment2 = keep2 * static_cast<A>(*at[2]) + rest2 * g * g;
      *at[1] = static_cast<T>(moment1);
      *at[2] = static_cast<T>(moment2);
      if (amsgrad) {
        moment2 = std::max(static_cast<A>(*at[3]), moment2);
        *at[3] = static_cast<T>(moment2);
      }
      A root = math::sqrt(moment2);
      if (!eps_hat) root /= root_bias;
      *at[0] = static_cast<T>(w - lr * (moment1 / (root + eps)));
    });
  });
}

cost::OpCost adam_cost(TypeSpan in, TypeSpan out, const Attrs& attrs, double decay_flops) {
  const double flops = 13 + (attrs.get_bool("amsgrad") ? 1 : 0) - (attrs.get_bool("eps_hat") ? 1 : 0);
  return update_cost(in, out, flops + decay_flops, 3);
}

}  // namespace trireme::op::detail
