// The table of the keys that are fields of the job: one row each, in the order of the written file.
#include "trireme/job/option_keys.h"

namespace trireme::job {
namespace {

using Int = std::int64_t;
using Text = std::string;
using MaybeNumber = std::optional<double>;
using MaybeInt = std::optional<std::int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;
using MaybeTexts = std::optional<std::vector<std::string>>;

// clang-format off
#define TR_KEY(path, type, member, decides, doc) \
  JobKey{path, doc, JobKey::Field{static_cast<type* (*)(Job&)>([](Job& j) -> type* { return &j.member; })}, decides}

const JobKey kKeys[] = {
    TR_KEY("name", Text, name, false, "Name of the job. Run folders are runs/<name>-<n>."),

    TR_KEY("model.name", Text, model.name, true, "Model of the zoo (trireme inspect models)."),
    TR_KEY("model.task", Text, model.task, true, "auto: as the model and the data suggest; classify; reconstruct: each sample is its own target."),
    TR_KEY("model.options", Json, model.options, true, "Options that scale a model of the zoo (trireme inspect models --json)."),
    TR_KEY("model.layers", Json, model.layers, true, "The model as a list of layers, instead of model.name (docs/how_to_own_model.md)."),
    TR_KEY("model.init_from", Text, model.init_from, true, "Initial weights: a run folder, a checkpoint or a .safetensors file."),
    TR_KEY("model.cut_at", Text, model.cut_at, true, "With init_from: this layer and all later ones are initialized anew."),
    TR_KEY("model.freeze", Texts, model.freeze, true, "Layers that are not trained: those with these names and those below them."),

    TR_KEY("data.kind", Text, data.kind, true, "Kind of data: digits (built in), or another of `trireme inspect data`, which lists the keys of each."),
    TR_KEY("data.path", Text, data.path, true, "File or folder of the samples, for kinds that read some."),
    TR_KEY("data.seed", Int, data.seed, true, "Seed of generated samples, and of the choice of held-out samples."),
    TR_KEY("data.limit_train", Int, data.limit_train, true, "Use only the first training samples; 0: all."),
    TR_KEY("data.limit_test", Int, data.limit_test, true, "Use only the first test samples; 0: all."),
    TR_KEY("data.test", double, data.test, true, "Fraction of the samples held out for testing, where the source has no test part."),
    TR_KEY("data.validation", double, data.validation, true, "Fraction of the training samples held out for validation. With it, epochs are evaluated on validation samples and only the final model on the test samples."),
    TR_KEY("data.partition", Text, data.partition, true, "random: every logical shard sees all samples; by-class: each shard keeps its own samples, split by class."),
    TR_KEY("data.prefetch", Int, data.prefetch, false, "Number of batches prepared ahead of their use."),
    TR_KEY("data.augment.shift", Int, data.augment.shift, true, "Shift training images by up to this many pixels."),
    TR_KEY("data.augment.crop", double, data.augment.crop, true, "Random crop: below 1, a window of at least this fraction of each side is scaled to the whole image."),
    TR_KEY("data.augment.flip", bool, data.augment.flip, true, "Random horizontal flip: mirror every other training image left to right."),

    TR_KEY("train.epochs", Int, train.epochs, true, "Number of epochs: passes over the training samples."),
    TR_KEY("train.steps", Int, train.steps, true, "Stop after this many steps; 0: after train.epochs."),
    TR_KEY("train.batch", Int, train.batch, true, "Batch size: samples per step, over all workers."),
    TR_KEY("train.seed", Int, train.seed, true, "Seed of initial weights, sample order, augmentation and dropout."),
    TR_KEY("train.logical_shards", Int, train.logical_shards, true, "Number of equal parts of a batch. It fixes the bits of the result for any number of workers. 0: as many as workers."),
    TR_KEY("train.shard_threads", Int, train.shard_threads, true, "Kernel threads per logical shard. 0: 1 where logical_shards is set, otherwise all cores of the worker."),
    TR_KEY("train.checkpoint_steps", Int, train.checkpoint_steps, false, "Steps between checkpoints; 0: at the end of every epoch."),
    TR_KEY("train.checkpoint_minutes", double, train.checkpoint_minutes, false, "Minutes between checkpoints, in addition to train.checkpoint_steps; 0: by steps alone."),
    TR_KEY("train.keep_best", bool, train.keep_best, false, "Keep the checkpoint of the best evaluation, on the validation samples or else the test samples. eval --best and predict --best use it."),
    TR_KEY("train.eval_steps", Int, train.eval_steps, true, "Steps between evaluations; 0: at the end of every epoch."),
    TR_KEY("train.trace_steps", Int, train.trace_steps, false, "Trace the first steps of this start to trace.json (chrome://tracing, Perfetto); 0: no trace."),
    TR_KEY("train.target_accuracy", double, train.target_accuracy, true, "Stop when an evaluation reaches this accuracy, such as 0.99; 0: never."),
    TR_KEY("train.patience", MaybeInt, train.patience, true, "Early stopping: stop after this many evaluations in a row without a better one. Default: never."),
    TR_KEY("train.nan", Text, train.nan, true, "What to do when the loss or a gradient is NaN or infinite: stop, or skip the step."),
    TR_KEY("train.logical_tiles", MaybeInt, train.logical_tiles, true, "Parts of the model that fix the arithmetic of parallel.mesh: any model axis of up to so many workers gives the same bits, each worker has some of the parts. Default: the size of the model axis."),
    TR_KEY("train.device", Text, train.device, true, "cpu, cuda (an NVIDIA GPU), or auto: cuda where there is one."),
    TR_KEY("train.precision", Text, train.precision, true, "Precision of matmuls and convolutions: f32, tf32 (GPU only: inputs rounded to 10 bits), bf16, or f16 (with loss scaling). Weights and sums stay f32."),
    TR_KEY("train.memory_limit", Text, train.memory_limit, false, "Memory limit per worker (on a GPU: of that GPU), such as 8GiB. Stages are cut so that they fit, then cheap activations are recomputed until the job fits; a limit that cannot be met is an error. Empty: no limit."),

    TR_KEY("train.optimizer.kind", Text, train.optimizer.kind, true, "momentum (SGD with momentum), or another of `trireme inspect optimizers`, which lists the keys of each."),
    TR_KEY("train.optimizer.lr", MaybeNumber, train.optimizer.lr, true, "Peak learning rate. Default: that of the kind, 0.1 for momentum (trireme inspect optimizers)."),
    TR_KEY("train.optimizer.no_decay", Texts, train.optimizer.no_decay, true, "Parameters without weight decay, by the last part of their names; []: all decay."),
    TR_KEY("train.optimizer.clip_norm", double, train.optimizer.clip_norm, true, "Gradient clipping: gradients are scaled down to this norm, taken over all parameters; 0: no clipping."),
    TR_KEY("train.optimizer.correct_momentum", bool, train.optimizer.correct_momentum, true, "Rescale velocities when the learning rate changes (for rate_inside)."),
    TR_KEY("train.optimizer.schedule", Text, train.optimizer.schedule, true, "Learning rate schedule over the run: constant, step, cosine, polynomial, exponential or one-cycle (trireme inspect schedules)."),
    TR_KEY("train.optimizer.warmup", double, train.optimizer.warmup, true, "Learning rate warm-up: fraction of the run over which the learning rate grows to its peak."),
    TR_KEY("train.optimizer.warmup_start", double, train.optimizer.warmup_start, true, "Learning rate at the start of the warm-up, as a fraction of the peak."),
    TR_KEY("train.optimizer.final_share", double, train.optimizer.final_share, true, "cosine, polynomial: learning rate at the end, as a fraction of the peak."),
    TR_KEY("train.optimizer.factor", double, train.optimizer.factor, true, "step: factor of the learning rate at every milestone; exponential: factor over the whole run."),
    TR_KEY("train.optimizer.power", double, train.optimizer.power, true, "polynomial: exponent of (1 - progress)^power."),
    TR_KEY("train.optimizer.start_divisor", double, train.optimizer.start_divisor, true, "one-cycle: the learning rate starts at the peak divided by this."),
    TR_KEY("train.optimizer.milestones", Numbers, train.optimizer.milestones, true, "step: fractions of the run at which the learning rate falls, such as [0.5, 0.75]."),
    TR_KEY("train.optimizer.reference_batch", Int, train.optimizer.reference_batch, true, "Linear scaling: lr is meant for this batch size and grows in proportion to train.batch; 0: no scaling."),
    TR_KEY("train.optimizer.max_batch_multiplier", Int, train.optimizer.max_batch_multiplier, true, "Above 1: the batch grows instead of the learning rate falling, up to this many times train.batch."),

    TR_KEY("parallel.workers", Int, parallel.workers, false, "Number of workers."),
    TR_KEY("parallel.mesh", Text, parallel.mesh, false, "How the workers share the work: data=2,model=4 is 2 replicas of the model, each cut over 4 workers; the product is the number of workers. Empty: data=workers."),
    TR_KEY("parallel.layouts", MaybeTexts, parallel.layouts, true, "How parameters lie on the model axis, by name: [\"fc*/weight: model=0\"] cuts dimension 0, model=1x3 dimension 1 in 3 blocks, model=replicate none. The rest is chosen by parallel.style."),
    TR_KEY("parallel.stage_cuts", MaybeTexts, parallel.stage_cuts, true, "Layers in front of which a model on a stage axis is cut: [\"block4\", \"block8\"]. Default: where the slowest stage is fastest."),
    TR_KEY("parallel.servers", Int, parallel.servers, false, "Number of parameter servers. -1: one for agreements that use them, otherwise none."),
    TR_KEY("parallel.agreement", Text, parallel.agreement, true, "How replicas keep one model: bsp (synchronous) or another of `trireme inspect agreements`, which lists the keys of each."),
    TR_KEY("parallel.codec", Text, parallel.codec, true, "Gradient compression: none, one of `trireme inspect codecs`, or auto: the cheapest by the cost model within codec_tolerance."),
    TR_KEY("parallel.codec_tolerance", Text, parallel.codec_tolerance, true, "Which codecs codec = auto may choose: exact (lossless), rounding (also shorter floats), feedback (also codecs with error feedback)."),
    TR_KEY("parallel.reducer", Text, parallel.reducer, true, "How compressed gradients are summed: gather (every worker gets everything), split (each worker sums a part and encodes the sum), sparse (each sums a part and sends its nonzero values), doubling (pairs exchange sparse sums, in rounds), auto: the cheapest by the cost model."),
    TR_KEY("parallel.transport", Text, parallel.transport, false, "shm (processes of one host), tcp, mpi (under mpirun), inproc (threads of one process), auto."),
    TR_KEY("parallel.collective", Text, parallel.collective, true, "Allreduce algorithm: fixed-tree (the same bits for any number of workers), ring, or another of `trireme inspect collectives`."),
    TR_KEY("parallel.bucket_bytes", Int, parallel.bucket_bytes, true, "Bucket size: bytes of gradients that are sent together; 0: chosen by the cost model."),
    TR_KEY("parallel.overlap", Text, parallel.overlap, false, "Which computation hides communication: none; buckets: they are sent during the backward pass; full: also, the next step starts with the layers that are ready."),
    TR_KEY("parallel.deadline_ms", Int, parallel.deadline_ms, false, "A rank that is silent for this many milliseconds is lost."),
    TR_KEY("parallel.link", Text, parallel.link, false, "Network link between hosts, for plans and predictions, and for where a new run without train.segments cuts its stages: BANDWIDTH[,LATENCY[,OVERHEAD]], such as 1gbit,50us. Empty: as calibrated, or a default."),
    TR_KEY("parallel.weights", Text, parallel.weights, false, "Where synchronous workers keep the weights: shared (one copy in the memory of the host, each worker updates its part), own (one copy each), auto (shared where possible)."),
    TR_KEY("parallel.device_collectives", Text, parallel.device_collectives, false, "How synchronous workers sum gradients and exchange activations that are on GPUs: mapped (workers of one host read each other's GPU memory), nccl, staged (through host memory), auto: nccl where every worker has its own GPU and train.logical_shards is not set, otherwise mapped, otherwise staged."),
    TR_KEY("parallel.check_steps", Int, parallel.check_steps, false, "Steps between comparisons of the replicas' weights, which must be equal; 0: never."),
};
#undef TR_KEY
// clang-format on

}  // namespace

std::span<const JobKey> job_keys() {
  static const std::vector<JobKey> keys = with_options(kKeys);
  return keys;
}

}  // namespace trireme::job
