#include "trireme/start/rank_error.h"

namespace trireme::start {

Json rank_error(int rank, const Status& failure, const job::Roles& roles) {
  const ErrorContext& c = failure.context();
  Json json = {{"rank", rank},       {"culprit", c.peer.value_or(-1)},    {"operation", c.operation},
               {"reason", c.reason}, {"code", code_name(failure.code())}, {"message", failure.message()}};
  if (Json coordinates = roles.coordinates(rank); !coordinates.is_null())
    json["coordinates"] = std::move(coordinates);
  return json;
}

}  // namespace trireme::start
