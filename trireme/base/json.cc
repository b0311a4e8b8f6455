#include "trireme/base/json.h"

namespace trireme {

Result<Json> parse_json(std::string_view text, std::string_view what) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    return error(Code::kCorrupt, "[json] {} is not valid JSON at byte {}: {}", what, e.byte, e.what());
  } catch (const nlohmann::json::exception& e) {  // a number beyond double
    return error(Code::kCorrupt, "[json] {} is not valid JSON: {}", what, e.what());
  }
}

}  // namespace trireme
