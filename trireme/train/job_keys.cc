// The table of job keys: one row each, in the order of the written file.
#include "trireme/train/job.h"

namespace trireme::train {
namespace {

// clang-format off
#define TR_KEY(path, type, member, decides, doc) \
  JobKey{path, doc, JobKey::Field{static_cast<type* (*)(Job&)>([](Job& j) -> type* { return &j.member; })}, decides}

const JobKey kKeys[] = {
    TR_KEY("name", std::string, name, false, "Name of the job: run folders are runs/<name>-<n>."),
    TR_KEY("model.name", std::string, model.name, true, "A model of the zoo (trireme inspect models)."),
    TR_KEY("data.kind", std::string, data.kind, true, "Where samples come from: digits (built in), idx, cifar, npy, csv, images, synthetic."),
    TR_KEY("data.path", std::string, data.path, true, "File or folder of the samples, for kinds that read some."),
    TR_KEY("data.seed", std::int64_t, data.seed, true, "Seed of drawn samples, and of which ones are held out for testing."),
    TR_KEY("data.limit_train", std::int64_t, data.limit_train, true, "Use only the first training samples; 0: all."),
    TR_KEY("data.limit_test", std::int64_t, data.limit_test, true, "Use only the first test samples; 0: all."),
    TR_KEY("data.test", double, data.test, true, "Share held out for testing where the source has no test part."),
    TR_KEY("data.shape", std::string, data.shape, true, "images, synthetic: shape of a sample, like 3x64x64."),
    TR_KEY("data.label", std::string, data.label, true, "csv: label column by name or number (empty: the last); cifar: fine or coarse."),
    TR_KEY("data.header", std::string, data.header, true, "csv: yes, no, or auto: where no field of the first line is a number."),
    TR_KEY("data.separator", std::string, data.separator, true, "csv: the character between fields."),
    TR_KEY("data.classes", std::int64_t, data.classes, true, "synthetic: number of classes."),
    TR_KEY("data.num_train", std::int64_t, data.num_train, true, "synthetic: training samples."),
    TR_KEY("data.num_test", std::int64_t, data.num_test, true, "synthetic: test samples."),
    TR_KEY("train.epochs", std::int64_t, train.epochs, true, "Passes over the training samples."),
    TR_KEY("train.steps", std::int64_t, train.steps, true, "Stop after this many steps; 0: by epochs."),
    TR_KEY("train.batch", std::int64_t, train.batch, true, "Samples per step, over all workers."),
    TR_KEY("train.seed", std::int64_t, train.seed, true, "Seed of initial weights, sample order and dropout."),
    TR_KEY("train.logical_shards", std::int64_t, train.logical_shards, true, "Equal parts of a batch; fixes the bits of the result for any number of workers. 0: as many as workers."),
    TR_KEY("train.shard_threads", std::int64_t, train.shard_threads, true, "Kernel threads per logical shard. 0: 1 where logical_shards is set, otherwise all cores of the worker."),
    TR_KEY("train.checkpoint_steps", std::int64_t, train.checkpoint_steps, false, "Steps between checkpoints; 0: at the end of every epoch."),
    TR_KEY("train.optimizer.kind", std::string, train.optimizer.kind, true, "momentum or sgd."),
    TR_KEY("train.optimizer.lr", double, train.optimizer.lr, true, "Peak learning rate."),
    TR_KEY("train.optimizer.momentum", double, train.optimizer.momentum, true, "Momentum, PyTorch's form: v = mu v + g; w -= lr v."),
    TR_KEY("train.optimizer.weight_decay", double, train.optimizer.weight_decay, true, "L2 penalty added to the gradient."),
    TR_KEY("train.optimizer.nesterov", bool, train.optimizer.nesterov, true, "Nesterov's form of momentum."),
    TR_KEY("train.optimizer.schedule", std::string, train.optimizer.schedule, true, "constant, or cosine: to zero over the run."),
    TR_KEY("train.optimizer.warmup", double, train.optimizer.warmup, true, "Share of the run over which the rate grows from zero."),
    TR_KEY("parallel.workers", std::int64_t, parallel.workers, false, "Number of workers."),
    TR_KEY("parallel.agreement", std::string, parallel.agreement, true, "How replicas keep one model: bsp."),
    TR_KEY("parallel.codec", std::string, parallel.codec, true, "Compression of gradients: none."),
    TR_KEY("parallel.transport", std::string, parallel.transport, false, "shm (processes of one host), tcp, mpi (under mpirun), inproc (threads of one process), auto."),
    TR_KEY("parallel.collective", std::string, parallel.collective, true, "fixed-tree (same bits for any worker count), ring, or another of `inspect collectives`."),
    TR_KEY("parallel.bucket_bytes", std::int64_t, parallel.bucket_bytes, true, "Gradients that travel together."),
    TR_KEY("parallel.deadline_ms", std::int64_t, parallel.deadline_ms, false, "A rank silent for this long is lost."),
};
#undef TR_KEY
// clang-format on

}  // namespace

std::span<const JobKey> job_keys() { return kKeys; }

}  // namespace trireme::train
