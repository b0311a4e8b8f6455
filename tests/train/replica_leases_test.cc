// The holders of leases in lock step are replicas, however many ranks they have.
#include "trireme/train/replica_leases.h"

#include <gtest/gtest.h>

#include "trireme/parallel/cells.h"

namespace trireme::train {
namespace {

// A mesh of data 2, model 2: four ranks, two holders.
TEST(ReplicaLeases, AreHeldByDataCoordinates) {
  parallel::CellOwners owners;
  owners.shards = {{0, 4}, {4, 2}};
  owners.tiles = {{0, 1}, {1, 1}};
  owners.segments = {{0, 1}};
  ASSERT_EQ(parallel::mesh_of(owners).num_ranks(), 4);
  ASSERT_EQ(parallel::mesh_of(owners).num_replicas(), 2);
  data::LeaseBook book(6);
  ASSERT_TRUE(grant_runs(book, 0, owners.shards).ok());
  EXPECT_FALSE(grant_runs(book, 0, owners.shards).ok()) << "all are out";
  EXPECT_EQ(book.expire(2), 0) << "no replica, though a rank";
  EXPECT_TRUE(finish_runs(book, 0, owners.shards).ok());
  EXPECT_TRUE(book.is_step_done(0));
  ASSERT_TRUE(grant_runs(book, 1, owners.shards).ok());
  EXPECT_GT(book.expire(1), 0);
  EXPECT_EQ(book.free_shards().size(), 2U) << "those of replica 1";
  EXPECT_FALSE(finish_runs(book, 1, owners.shards).ok());
}

}  // namespace
}  // namespace trireme::train
