// MailClient: the Client over a Mailbox. client.cc has whole vectors and rows, client_coded.cc coded ones.
#pragma once

#include "trireme/server/client.h"
#include "trireme/server/letters.h"
#include "trireme/server/line.h"
#include "trireme/server/tensor_pool.h"

namespace trireme::server {

// What of a key's vector a slice is.
inline net::View view_of(const Tensor& t, const Slice& s) {
  const auto bytes = static_cast<std::uint64_t>(s.end - s.begin) * sizeof(float);
  return {t.is_phantom() ? nullptr : t.raw() + s.begin * static_cast<std::int64_t>(sizeof(float)), bytes};
}

class MailClient final : public Client {
 public:
  // `coders`, `factors`: per slice; none: no slice has one.
  MailClient(runtime::Runtime& rt, comm::Mailbox& mail, std::vector<int> ranks, ServerLayout layout,
             std::vector<Key> keys, std::vector<SharedCoder> coders, std::vector<FactorSlice> factors,
             bool codes_pulls);

  using Client::init;
  runtime::Task<Status> init(std::uint32_t key, Tensor values, InitShare share) override;
  runtime::Task<Status> push(std::uint32_t key, Tensor values, PushNote note) override;
  runtime::Task<Status> push_coded(std::uint32_t key, Tensor values, PushNote note, CodedNote coded) override;
  runtime::Task<Status> push_factors(std::uint32_t key, Tensor factors, PushNote note) override;
  runtime::Task<Result<Version>> pull(std::uint32_t key, Tensor into, std::int64_t clock) override;
  runtime::Task<Result<Version>> pull_coded(std::uint32_t key, Tensor into, std::int64_t clock,
                                            std::int64_t exchange) override;
  runtime::Task<Result<Version>> push_pull(std::uint32_t key, Tensor values, Tensor into, PushNote note,
                                           ReadWhen when) override;
  runtime::Task<Status> push_rows(std::uint32_t key, Tensor rows, Tensor values, PushNote note) override;
  runtime::Task<Result<Version>> pull_rows(std::uint32_t key, Tensor rows, Tensor into,
                                           std::int64_t clock) override;
  runtime::Task<Status> tick(std::int64_t clock) override;
  runtime::Task<Status> finish() override;
  runtime::Task<Status> rejoin(std::int64_t clock) override;

 private:
  using Answered = comm::Letter<ServerAnswer>;

  // A key whose pulls are coded: the values of the last one, which its servers know.
  struct Had {
    Tensor values;  // laid out as the key; null: none yet
    bool is_known = false;
  };

  Status check(std::uint32_t key, const Tensor& t) const;
  Status check_rows(std::uint32_t key, const Tensor& rows, const Tensor& values) const;
  static PushHead head_of(const PushNote& note);
  // How far the slice was when the values of `based_on` were read: slices of one key differ.
  std::int64_t based_on(const Slice& slice, std::int64_t noted) const {
    return noted >= 0 && noted == fewest_[slice.key] ? updates_[slice.id] : noted;
  }

  template <typename Head>
  runtime::Task<Status> send(int server, const Head& head, net::View payload) {
    return mail_.send(ranks_[static_cast<std::size_t>(server)], receiver_of(server), head, payload);
  }
  template <typename Head>
  runtime::Task<Status> ask(int server, Head head, net::View payload, net::View into, Answered* answer);
  runtime::Task<Status> send_slices(std::uint32_t key, Tensor values, PushHead head);
  // Push, or pull: `values` is null.
  template <typename Head>
  runtime::Task<Result<Version>> ask_slices(std::uint32_t key, Tensor values, Tensor into, Head head);
  template <typename Head>
  runtime::Task<Status> ask_servers(Head head);
  Version version_of(std::span<const Slice> slices, std::span<const Answered> answers);

  // The key's coder of any slice; null: it is not coded.
  const VectorCoder* coder_of(std::uint32_t key) const;
  bool encodes(std::uint32_t key, std::int64_t exchange) const;
  runtime::Task<Status> push_slice(Slice slice, Tensor values, PushHead head, CodedNote coded);
  runtime::Task<Status> push_factor_slice(Slice slice, Tensor factors, PushHead head);
  runtime::Task<Status> pull_slice(Slice slice, Tensor into, PullHead head, Answered* answer);
  // The slice of `from`, which begins there with it, to its places in `have` and `into`.
  runtime::Task<void> take_values(Slice slice, Tensor from, std::int64_t first, Tensor have, Tensor into);

  runtime::Runtime& rt_;
  comm::Mailbox& mail_;
  const std::vector<int> ranks_;  // per server
  const ServerLayout layout_;
  const std::vector<Key> keys_;
  const std::vector<SharedCoder> coders_;   // per slice, or none
  const std::vector<FactorSlice> factors_;  // likewise
  const bool codes_pulls_;
  std::vector<std::vector<Slice>> slices_;  // per key
  std::vector<std::int64_t> updates_;       // per slice: of the newest answer
  std::vector<std::int64_t> fewest_;        // per key: of the slices in the newest answer; -1: none yet
  TensorPool pool_;                         // messages on their way
  std::vector<Had> had_;                    // per key
  std::vector<std::unique_ptr<Line>> pushes_, pulls_;  // per key: coded ones, one after the other
};

}  // namespace trireme::server
