// The table of job keys: one row each, in the order of the written file.
#include "trireme/train/job.h"

namespace trireme::train {
namespace {

using Int = std::int64_t;
using Text = std::string;
using MaybeNumber = std::optional<double>;
using MaybeBool = std::optional<bool>;
using MaybeInt = std::optional<std::int64_t>;
using MaybeText = std::optional<std::string>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

// clang-format off
#define TR_KEY(path, type, member, decides, doc) \
  JobKey{path, doc, JobKey::Field{static_cast<type* (*)(Job&)>([](Job& j) -> type* { return &j.member; })}, decides}

const JobKey kKeys[] = {
    TR_KEY("name", Text, name, false, "Name of the job: run folders are runs/<name>-<n>."),

    TR_KEY("model.name", Text, model.name, true, "A model of the zoo (trireme inspect models)."),
    TR_KEY("model.task", Text, model.task, true, "auto: as the model and the data say; classify; reconstruct: samples are their own targets."),
    TR_KEY("model.options", Json, model.options, true, "Numbers that scale a model of the zoo (trireme inspect models --json)."),
    TR_KEY("model.layers", Json, model.layers, true, "The model as a list of layers, instead of model.name (docs/how_to_own_model.md)."),
    TR_KEY("model.init_from", Text, model.init_from, true, "Start from these weights: a run folder, a checkpoint or a .safetensors file."),
    TR_KEY("model.cut_at", Text, model.cut_at, true, "With init_from: this layer and those after it start anew."),
    TR_KEY("model.freeze", Texts, model.freeze, true, "Layers that are not trained: those with these names and those below them."),

    TR_KEY("data.kind", Text, data.kind, true, "Where samples come from: digits (built in), idx, cifar, npy, csv, images, text, synthetic."),
    TR_KEY("data.path", Text, data.path, true, "File or folder of the samples, for kinds that read some."),
    TR_KEY("data.seed", Int, data.seed, true, "Seed of drawn samples, and of which ones are held out."),
    TR_KEY("data.limit_train", Int, data.limit_train, true, "Use only the first training samples; 0: all."),
    TR_KEY("data.limit_test", Int, data.limit_test, true, "Use only the first test samples; 0: all."),
    TR_KEY("data.test", double, data.test, true, "Share held out for testing where the source has no test part."),
    TR_KEY("data.validation", double, data.validation, true, "Share of the training samples set apart: epochs are judged by it, the end by the test samples."),
    TR_KEY("data.partition", Text, data.partition, true, "random: every logical shard sees all samples; by-class: each keeps its own, cut by class."),
    TR_KEY("data.prefetch", Int, data.prefetch, false, "Batches made ahead of their use."),
    TR_KEY("data.shape", Text, data.shape, true, "images, synthetic: shape of a sample, like 3x64x64."),
    TR_KEY("data.label", Text, data.label, true, "csv: label column by name or number (empty: the last); cifar: fine or coarse."),
    TR_KEY("data.header", Text, data.header, true, "csv: yes, no, or auto: yes where the first line cannot be a sample."),
    TR_KEY("data.separator", Text, data.separator, true, "csv: the character between fields, or tab."),
    TR_KEY("data.pixels", MaybeText, data.pixels, true, "npy: bytes: integers from 0 to 255 of any type are image bytes and normalized as such; floats: values are used as they are. Not set: picked by the data when training starts, otherwise floats."),
    TR_KEY("data.tokens", Text, data.tokens, true, "text: chars or bytes."),
    TR_KEY("data.context", Int, data.context, true, "text: tokens of a sample."),
    TR_KEY("data.stride", Int, data.stride, true, "text: tokens between the starts of training samples; 0: context."),
    TR_KEY("data.classes", Int, data.classes, true, "synthetic: number of classes."),
    TR_KEY("data.num_train", Int, data.num_train, true, "synthetic: training samples."),
    TR_KEY("data.num_test", Int, data.num_test, true, "synthetic: test samples."),
    TR_KEY("data.augment.shift", Int, data.augment.shift, true, "Training pictures are moved by up to this many pixels."),
    TR_KEY("data.augment.crop", double, data.augment.crop, true, "Below 1: a window of at least this share of each side is stretched to the whole picture."),
    TR_KEY("data.augment.flip", bool, data.augment.flip, true, "Every other training picture is mirrored left to right."),

    TR_KEY("train.epochs", Int, train.epochs, true, "Passes over the training samples."),
    TR_KEY("train.steps", Int, train.steps, true, "Stop after this many steps; 0: by epochs."),
    TR_KEY("train.batch", Int, train.batch, true, "Samples per step, over all workers."),
    TR_KEY("train.seed", Int, train.seed, true, "Seed of initial weights, sample order, augmentation and dropout."),
    TR_KEY("train.logical_shards", Int, train.logical_shards, true, "Equal parts of a batch; fixes the bits of the result for any number of workers. 0: as many as workers."),
    TR_KEY("train.shard_threads", Int, train.shard_threads, true, "Kernel threads per logical shard. 0: 1 where logical_shards is set, otherwise all cores of the worker."),
    TR_KEY("train.checkpoint_steps", Int, train.checkpoint_steps, false, "Steps between checkpoints; 0: at the end of every epoch."),
    TR_KEY("train.checkpoint_minutes", double, train.checkpoint_minutes, false, "Minutes between checkpoints, in addition to train.checkpoint_steps; 0: by steps alone."),
    TR_KEY("train.keep_best", bool, train.keep_best, false, "Keep the checkpoint of the best evaluation, by the validation samples or else the test samples; eval --best and predict --best use it."),
    TR_KEY("train.eval_steps", Int, train.eval_steps, true, "Steps between evaluations; 0: at the end of every epoch."),
    TR_KEY("train.trace_steps", Int, train.trace_steps, false, "Write what the first steps of this start did to trace.json (chrome://tracing); 0: no trace."),
    TR_KEY("train.events", bool, train.events, false, "Write TensorBoard event files."),
    TR_KEY("train.target_accuracy", double, train.target_accuracy, true, "Stop when an evaluation reaches this accuracy, like 0.99; 0: never."),
    TR_KEY("train.patience", MaybeInt, train.patience, true, "Early stopping: stop after this many evaluations in a row without a better one; not set: never."),
    TR_KEY("train.nan", Text, train.nan, true, "When the loss or a gradient is not a number: stop, or skip the step."),
    TR_KEY("train.device", Text, train.device, true, "cpu, cuda (an NVIDIA GPU), or auto: cuda where there is one."),
    TR_KEY("train.precision", Text, train.precision, true, "Of products: f32, tf32 (on a GPU: f32 with operands rounded to 10 bits), bf16, or f16 (with loss scaling); weights and sums stay f32."),
    TR_KEY("train.memory_limit", Text, train.memory_limit, false, "Most memory that a worker may need, like 8GiB; on a GPU, of that GPU: cheap values are computed again instead of kept until it is enough; empty: no limit."),

    TR_KEY("train.optimizer.kind", Text, train.optimizer.kind, true, "sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw or lars (trireme inspect optimizers)."),
    TR_KEY("train.optimizer.lr", MaybeNumber, train.optimizer.lr, true, "Peak learning rate; not set: 0.1 for sgd, momentum, nesterov and lars, 0.01 for adagrad and rmsprop, 0.001 for adam and adamw."),
    TR_KEY("train.optimizer.momentum", MaybeNumber, train.optimizer.momentum, true, "momentum, nesterov, rmsprop, lars. PyTorch's form: v = mu v + g; w -= lr v. Not set: 0.9 for momentum, nesterov and lars, but 0 for momentum and nesterov under agreements whose servers apply old gradients (ssp, downpour, staleness-aware, soft)."),
    TR_KEY("train.optimizer.dampening", MaybeNumber, train.optimizer.dampening, true, "momentum: share of the gradient that the velocity does not get."),
    TR_KEY("train.optimizer.beta1", MaybeNumber, train.optimizer.beta1, true, "adam, adamw: share of the first moment that is kept."),
    TR_KEY("train.optimizer.beta2", MaybeNumber, train.optimizer.beta2, true, "adam, adamw: share of the second moment that is kept."),
    TR_KEY("train.optimizer.eps", MaybeNumber, train.optimizer.eps, true, "adagrad, rmsprop, adam, adamw, lars: added to the denominator."),
    TR_KEY("train.optimizer.alpha", MaybeNumber, train.optimizer.alpha, true, "rmsprop: share of the averages that is kept."),
    TR_KEY("train.optimizer.trust", MaybeNumber, train.optimizer.trust, true, "lars: rate of a tensor whose gradient is as long as itself."),
    TR_KEY("train.optimizer.lr_decay", MaybeNumber, train.optimizer.lr_decay, true, "adagrad: lr / (1 + (t - 1) lr_decay)."),
    TR_KEY("train.optimizer.initial_sum", MaybeNumber, train.optimizer.initial_sum, true, "adagrad: where the sums of squares start."),
    TR_KEY("train.optimizer.weight_decay", MaybeNumber, train.optimizer.weight_decay, true, "L2 penalty added to the gradient; adamw: decoupled, 0.01 unless set."),
    TR_KEY("train.optimizer.nesterov", MaybeBool, train.optimizer.nesterov, true, "momentum: Nesterov's form."),
    TR_KEY("train.optimizer.rate_inside", MaybeBool, train.optimizer.rate_inside, true, "momentum, rmsprop: v = mu v + lr g; w -= v."),
    TR_KEY("train.optimizer.eps_inside", MaybeBool, train.optimizer.eps_inside, true, "adagrad, rmsprop: sqrt(s + eps) instead of sqrt(s) + eps."),
    TR_KEY("train.optimizer.eps_hat", MaybeBool, train.optimizer.eps_hat, true, "adam, adamw: eps is added before the root's bias is corrected, as at the end of the paper's section 2."),
    TR_KEY("train.optimizer.amsgrad", MaybeBool, train.optimizer.amsgrad, true, "adam, adamw: divide by the largest second moment so far."),
    TR_KEY("train.optimizer.centered", MaybeBool, train.optimizer.centered, true, "rmsprop: divide by the deviation."),
    TR_KEY("train.optimizer.bias_correction", MaybeBool, train.optimizer.bias_correction, true, "adam, adamw: divide the moments by 1 - beta^t."),
    TR_KEY("train.optimizer.decay_by_lr", MaybeBool, train.optimizer.decay_by_lr, true, "adamw: false: decay by weight_decay alone, not times lr."),
    TR_KEY("train.optimizer.no_decay", Texts, train.optimizer.no_decay, true, "Parameters that do not decay, by the last part of their names; []: all decay."),
    TR_KEY("train.optimizer.clip_norm", double, train.optimizer.clip_norm, true, "Gradients longer than this, over all parameters, are shortened to it; 0: never."),
    TR_KEY("train.optimizer.correct_momentum", bool, train.optimizer.correct_momentum, true, "Velocities are rescaled when the rate changes (for rate_inside)."),
    TR_KEY("train.optimizer.fixed_after", MaybeInt, train.optimizer.fixed_after, true, "adam, adamw: updates after which second moments stay as they are; with a codec those of what is encoded. 0: never."),
    TR_KEY("train.optimizer.schedule", Text, train.optimizer.schedule, true, "constant, step, cosine, polynomial, exponential or one-cycle, over the run (trireme inspect schedules)."),
    TR_KEY("train.optimizer.warmup", double, train.optimizer.warmup, true, "Share of the run over which the rate grows to its peak."),
    TR_KEY("train.optimizer.warmup_start", double, train.optimizer.warmup_start, true, "Share of the peak at which the warm-up starts."),
    TR_KEY("train.optimizer.final_share", double, train.optimizer.final_share, true, "cosine, polynomial: share of the peak that is left at the end."),
    TR_KEY("train.optimizer.factor", double, train.optimizer.factor, true, "step: factor at every milestone; exponential: of the whole run."),
    TR_KEY("train.optimizer.power", double, train.optimizer.power, true, "polynomial: (1 - progress)^power."),
    TR_KEY("train.optimizer.start_divisor", double, train.optimizer.start_divisor, true, "one-cycle: the rate starts at the peak divided by this."),
    TR_KEY("train.optimizer.milestones", Numbers, train.optimizer.milestones, true, "step: shares of the run at which the rate falls, like [0.5, 0.75]."),
    TR_KEY("train.optimizer.reference_batch", Int, train.optimizer.reference_batch, true, "Linear scaling: lr belongs to this batch and grows with train.batch; 0: lr as it is."),
    TR_KEY("train.optimizer.max_batch_multiplier", Int, train.optimizer.max_batch_multiplier, true, "Above 1: instead of the rate falling the batch grows, up to this many times train.batch."),

    TR_KEY("parallel.workers", Int, parallel.workers, false, "Number of workers."),
    TR_KEY("parallel.servers", Int, parallel.servers, false, "Number of parameter servers. -1: one for agreements that use them, otherwise none."),
    TR_KEY("parallel.colocate", Text, parallel.colocate, false, "Servers share the processes of workers: yes, no, or auto: where parallel.servers is not set."),
    TR_KEY("parallel.agreement", Text, parallel.agreement, true, "How replicas keep one model (trireme inspect agreements says which keys each reads)."),
    TR_KEY("parallel.period", MaybeInt, parallel.period, true, "Own steps of a worker between exchanges (10); 0: chosen while running."),
    TR_KEY("parallel.elasticity", MaybeNumber, parallel.elasticity, true, "Share of the distance to the centre by which a worker moves (alpha of EASGD); 0 or not set: 0.9 / workers."),
    TR_KEY("parallel.staleness", MaybeInt, parallel.staleness, true, "Clocks that the fastest worker may be ahead of the slowest (3); 0: lock step. decentralized: steps of a worker without an update from a peer (8), or clocks ahead of it where data.partition gives workers their own samples."),
    TR_KEY("parallel.fetch_steps", MaybeInt, parallel.fetch_steps, true, "Own steps between pulls of the servers' weights (1): n_fetch."),
    TR_KEY("parallel.push_steps", MaybeInt, parallel.push_steps, true, "Own steps whose updates are sent as one (1): n_push."),
    TR_KEY("parallel.in_flight", MaybeInt, parallel.in_flight, true, "Updates of a worker that may be on their way at once (1)."),
    TR_KEY("parallel.warm_start_steps", MaybeInt, parallel.warm_start_steps, true, "Steps of the first worker alone before the others join (0)."),
    TR_KEY("parallel.local_replicas", MaybeInt, parallel.local_replicas, true, "Replicas in every worker that train on one set of weights without locks (1)."),
    TR_KEY("parallel.gather", MaybeInt, parallel.gather, true, "Pushes that make one update of the servers; 0 or not set: half of the workers."),
    TR_KEY("parallel.fraction", MaybeNumber, parallel.fraction, true, "Share of the workers that completes a step (0.75)."),
    TR_KEY("parallel.outer", MaybeText, parallel.outer, true, "What is done with the mean of the workers: average (take it), sgd, nesterov."),
    TR_KEY("parallel.outer_lr", MaybeNumber, parallel.outer_lr, true, "Rate of the outer optimiser (1)."),
    TR_KEY("parallel.outer_momentum", MaybeNumber, parallel.outer_momentum, true, "Momentum of the outer optimiser (0)."),
    TR_KEY("parallel.neighbours", MaybeText, parallel.neighbours, true, "Whom gossip mixes with: random (one at a time), ring, push-sum."),
    TR_KEY("parallel.proximity", MaybeNumber, parallel.proximity, true, "Weight of the distance to the agreed model in a worker's loss (0)."),
    TR_KEY("parallel.locked", MaybeBool, parallel.locked, true, "Workers change the shared weights one at a time (false)."),
    TR_KEY("parallel.codec", Text, parallel.codec, true, "What gradients travel in: none, one of `inspect codecs`, or auto: what is cheapest by the cost model within codec_tolerance."),
    TR_KEY("parallel.codec_tolerance", Text, parallel.codec_tolerance, true, "What codec = auto may do to gradients: exact (nothing), rounding (shorter floats), feedback (codecs that make up for it later)."),
    TR_KEY("parallel.codec_fraction", MaybeNumber, parallel.codec_fraction, true, "topk, randomk: share of the values that is sent (0.01); threshold: what an adapted tau aims at."),
    TR_KEY("parallel.codec_tau", MaybeNumber, parallel.codec_tau, true, "threshold: values that reach it are sent; 0 or not set: adapted."),
    TR_KEY("parallel.codec_bits", MaybeInt, parallel.codec_bits, true, "qsgd: bits of a value: 2, 4 (default) or 8."),
    TR_KEY("parallel.codec_clip", MaybeNumber, parallel.codec_clip, true, "terngrad: values beyond so many standard deviations are cut (2.5); 0: none."),
    TR_KEY("parallel.codec_rank", MaybeInt, parallel.codec_rank, true, "powersgd: columns of the two factors of a matrix (2)."),
    TR_KEY("parallel.codec_feedback", MaybeBool, parallel.codec_feedback, true, "What was not sent is added to the next gradient (true for codecs that need it)."),
    TR_KEY("parallel.codec_momentum", MaybeNumber, parallel.codec_momentum, true, "Momentum correction: velocities are encoded instead of gradients (0: off); in lock step the optimiser's own momentum ends where encoding begins (not set: its momentum, for 1bit with momentum, and with fixed_after for codecs with feedback with adam and adamw)."),
    TR_KEY("parallel.codec_least", MaybeInt, parallel.codec_least, true, "Tensors of fewer values travel as they are (1024)."),
    TR_KEY("parallel.codec_dense_steps", MaybeInt, parallel.codec_dense_steps, true, "First steps whose gradients are not encoded (0; in lock step 50 for 1bit with momentum, fixed_after for codecs with feedback with adam and adamw)."),
    TR_KEY("parallel.codec_warmup_steps", MaybeInt, parallel.codec_warmup_steps, true, "Steps over which codec_fraction falls from a quarter to its value (0)."),
    TR_KEY("parallel.codec_pull", MaybeBool, parallel.codec_pull, true, "Servers send encoded changes, not whole weights (false)."),
    TR_KEY("parallel.reducer", Text, parallel.reducer, true, "How encoded gradients are summed: gather (everybody gets everything), split (each sums a part and encodes the sum), sparse (each sums a part and sends its values that are not zero), doubling (pairs trade sums of what is not zero, in rounds), auto: by cost."),
    TR_KEY("parallel.transport", Text, parallel.transport, false, "shm (processes of one host), tcp, mpi (under mpirun), inproc (threads of one process), auto."),
    TR_KEY("parallel.collective", Text, parallel.collective, true, "fixed-tree (same bits for any worker count), ring, or another of `inspect collectives`."),
    TR_KEY("parallel.bucket_bytes", Int, parallel.bucket_bytes, true, "Gradients that travel together; 0: chosen by the cost model."),
    TR_KEY("parallel.overlap", Text, parallel.overlap, false, "What communication hides behind: none, buckets (they leave while backward runs), full (and the next step starts with the layers that are ready)."),
    TR_KEY("parallel.deadline_ms", Int, parallel.deadline_ms, false, "A rank silent for this long is lost."),
    TR_KEY("parallel.link", Text, parallel.link, false, "What lies between hosts, for plans and predictions: BANDWIDTH[,LATENCY[,OVERHEAD]] as 1gbit,50us; empty: as calibrated, or assumed."),
    TR_KEY("parallel.weights", Text, parallel.weights, false, "Where lock-step workers have the weights: shared (once in the memory of the host, each worker updates its part), own (a copy each), auto (shared where it can be)."),
    TR_KEY("parallel.device_collectives", Text, parallel.device_collectives, false, "How lock-step workers add gradients that are on GPUs: mapped (workers of one host read each other's GPU memory), nccl, staged (through the memory of the host), auto: nccl where every worker has a GPU of its own and train.logical_shards is not set, else mapped, else staged."),
    TR_KEY("parallel.check_steps", Int, parallel.check_steps, false, "Steps between comparisons of the replicas' weights, which must be equal; 0: never."),
};
#undef TR_KEY
// clang-format on

}  // namespace

std::span<const JobKey> job_keys() { return kKeys; }

}  // namespace trireme::train
