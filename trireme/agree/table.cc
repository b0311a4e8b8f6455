#include "trireme/agree/agree.h"
#include "trireme/agree/averaging.h"
#include "trireme/agree/bsp.h"
#include "trireme/agree/conservative.h"
#include "trireme/agree/decentralized.h"
#include "trireme/agree/easgd.h"
#include "trireme/agree/gossip.h"
#include "trireme/agree/hogwild.h"
#include "trireme/agree/none.h"
#include "trireme/agree/server_rules.h"
#include "trireme/agree/ssp_peer.h"

namespace trireme::agree {
namespace {

constexpr const char* kAveragingKeys[] = {"period", "outer", "outer_lr", "outer_momentum"};
constexpr const char* kConservativeKeys[] = {"period", "proximity"};
constexpr const char* kEasgdKeys[] = {"period", "elasticity"};
constexpr const char* kHogwildKeys[] = {"locked"};
constexpr const char* kDownpourKeys[] = {"fetch_steps", "push_steps", "in_flight", "warm_start_steps",
                                         "local_replicas"};
constexpr const char* kSspKeys[] = {"staleness"};
constexpr const char* kSoftKeys[] = {"gather"};
constexpr const char* kLateKeys[] = {"fraction"};
constexpr const char* kGossipKeys[] = {"period", "neighbors", "in_flight"};
constexpr const char* kDecentralizedKeys[] = {"push_steps", "in_flight", "staleness"};
constexpr const char* kSspPeerKeys[] = {"staleness", "in_flight"};

constexpr const char* kToACentre =
    "workers send their models to a centre that only the servers know, so there is no difference to encode; "
    "use parallel.agreement = easgd, which encodes differences";
constexpr const char* kToAnyPeer =
    "whole models go to another peer each time, and nobody would make up for what an encoding left out; use "
    "parallel.agreement = decentralized or averaging, which encode changes";
constexpr const char* kSendsNothing =
    "nothing travels between its workers, so there is nothing to encode; use parallel.codec = none";

constexpr AgreementRow kRules[] = {
    {"bsp",
     "Every step applies the same sum of all logical shards' gradients everywhere.",
     "Valiant, A bridging model for parallel computation, CACM 1990",
     true,
     false,
     Pace::kStep,
     true,
     "",
     {},
     make_bsp,
     false,
     false,
     nullptr},
    {"averaging",
     "Workers train alone for `period` steps, then their weights are averaged; an outer optimizer may "
     "follow.",
     "Moritz, Nishihara, Stoica, Jordan, SparkNet, 2015; Chen and Huo, block momentum (BMUF), 2016; "
     "Douillard et "
     "al., DiLoCo, 2023",
     true, false, Pace::kPeriod, true, "", kAveragingKeys, make_averaging, false, false, nullptr},
    {"easgd", "Every `period` steps workers and a centre pull at each other; every worker keeps the centre.",
     "Zhang, Choromanska, LeCun, Deep learning with Elastic Averaging SGD, 2015", true, false, Pace::kPeriod,
     true, "", kEasgdKeys, make_easgd, false, false, nullptr},
    {"conservative", "As averaging, and local steps are held near the last average by a proximal term.",
     "Li, Zhang, Chen, Smola, Efficient mini-batch training for stochastic optimization, KDD 2014", true,
     false, Pace::kPeriod, true, "", kConservativeKeys, make_conservative, false, false, nullptr},
    {"hogwild", "Workers of one host update one set of weights without locks; `locked`: one at a time.",
     "Recht, Re, Wright, Niu, Hogwild!: a lock-free approach to parallelizing stochastic gradient descent, "
     "2011",
     false, false, Pace::kFree, true, "", kHogwildKeys, make_hogwild, true, false, kSendsNothing},
    {"bsp-server",
     "Every clock the servers apply the mean of all workers' gradients; all read the same weights.",
     "Li et al., Scaling distributed machine learning with the parameter server, OSDI 2014",
     true,
     true,
     Pace::kBound,
     false,
     "bsp",
     {},
     make_bsp_server,
     false,
     false,
     nullptr},
    {"ssp", "Servers apply gradients as they come; the fastest worker is at most `staleness` clocks ahead.",
     "Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, NIPS 2013",
     false, true, Pace::kBound, false, "ssp", kSspKeys, make_ssp, false, false, nullptr},
    {"downpour",
     "Workers push accrued gradients every `push_steps` and fetch weights every `fetch_steps`, waiting for "
     "nobody.",
     "Dean et al., Large scale distributed deep networks, NIPS 2012", false, true, Pace::kFree, false,
     "async", kDownpourKeys, make_downpour, false, false, nullptr},
    {"staleness-aware",
     "Servers apply gradients as they come, with the learning rate divided by their staleness.",
     "Zhang, Gupta, Lian, Liu, Staleness-aware async-SGD for distributed deep learning, IJCAI 2016",
     false,
     true,
     Pace::kFree,
     false,
     "async",
     {},
     make_staleness_aware,
     false,
     false,
     nullptr},
    {"soft", "Servers apply the mean of `gather` gradients, whoever they are of.",
     "Zhang, Gupta, Lian, Liu, Staleness-aware async-SGD for distributed deep learning, IJCAI 2016", false,
     true, Pace::kFree, false, "soft", kSoftKeys, make_soft, false, false, nullptr},
    {"late", "A clock closes with `fraction` of the workers; late gradients are dropped.",
     "Chen, Monga, Bengio, Jozefowicz, Revisiting distributed synchronous SGD, 2016; Chilimbi et al., "
     "Project Adam, OSDI 2014",
     false, true, Pace::kBound, false, "late", kLateKeys, make_late, false, true, nullptr},
    {"easgd-async", "Every `period` steps a worker and the servers' centre pull at each other, on their own.",
     "Zhang, Choromanska, LeCun, Deep learning with Elastic Averaging SGD, 2015", false, true, Pace::kFree,
     true, "async", kEasgdKeys, make_easgd_async, false, false, kToACentre},
    {"gossip",
     "Every `period` steps a worker sends its model to some `neighbors`; what has come is mixed in, and "
     "nobody waits.",
     "Blot, Picard, Cord, Thome, Gossip training for deep learning, 2016; Lian et al., Can decentralized "
     "algorithms outperform centralized algorithms? (D-PSGD), 2017; Assran, Loizou, Ballas, Rabbat, "
     "Stochastic gradient push, 2019",
     false, false, Pace::kFree, true, "", kGossipKeys, make_gossip, false, false, kToAnyPeer},
    {"decentralized",
     "Workers send what they changed to all others, who add it as it comes; a worker waits after `staleness` "
     "steps without news of a peer.",
     "Strom, Scalable distributed DNN training using commodity GPU cloud computing, Interspeech 2015", false,
     false, Pace::kFree, true, "", kDecentralizedKeys, make_decentralized, false, false, nullptr},
    {"ssp-peer", "As decentralized, and nobody is more than `staleness` clocks ahead of the slowest.",
     "Ho et al., More effective distributed ML via a stale synchronous parallel parameter server, NIPS 2013",
     false, false, Pace::kBound, true, "", kSspPeerKeys, make_ssp_peer, false, false, nullptr},
    {"none",
     "Workers train alone and never talk; the model is worker 0's. The control.",
     "The control of Zinkevich, Weimer, Li, Smola, Parallelized stochastic gradient descent, 2010",
     false,
     false,
     Pace::kPeriod,
     true,
     "",
     {},
     make_none,
     false,
     false,
     kSendsNothing},
};

}  // namespace

std::span<const AgreementRow> agreement_table() { return kRules; }

Result<const AgreementRow*> find_agreement(std::string_view name) {
  std::string known;
  for (const AgreementRow& row : kRules) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return error(Code::kNotFound, "[agree] no agreement is called '{}'; expected one of: {}", name, known);
}

}  // namespace trireme::agree
