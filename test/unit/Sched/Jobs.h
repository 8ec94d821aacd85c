//===- Jobs.h - Layouts, recomputes and schedules of the small model ------===//
//
// Tables that every engine is tested with: each job, in each kind of pipeline,
// with each choice of captures.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_TEST_UNIT_SCHED_JOBS_H
#define MOE_TEST_UNIT_SCHED_JOBS_H

#include "SmallModel.h"

namespace mlir::moe {

/// One layout under one choice of recompute.
struct Job {
  Layout layout;
  std::vector<std::string> recompute;
};

inline std::vector<Job> jobs() {
  std::vector<Job> jobs;
  for (Layout layout : {Layout{1, 1, 1}, Layout{2, 2, 1}, Layout{2, 1, 1},
                        Layout{1, 1, 2}, Layout{2, 2, 2}})
    for (std::vector<std::string> recompute : {std::vector<std::string>{},
                                               {"norm"},
                                               {"moe"},
                                               {"moe_act"},
                                               {"norm", "moe"}})
      jobs.push_back({layout, recompute});
  // Deep pipelines, where micro-batches meet on the way.
  jobs.push_back({{1, 1, 4}, {}});
  jobs.push_back({{1, 1, 4}, {"norm", "moe"}});
  jobs.push_back({{2, 2, 4}, {"norm", "moe"}});
  return jobs;
}

inline std::string jobName(const ::testing::TestParamInfo<Job> &info) {
  const Job &job = info.param;
  std::string name = "dp" + std::to_string(job.layout.dp) + "ep" +
                     std::to_string(job.layout.ep) + "pp" +
                     std::to_string(job.layout.pp);
  for (const std::string &module : job.recompute)
    name += "_" + module;
  return name;
}

inline constexpr moert::PipelineKind kKinds[] = {moert::PipelineKind::Serial,
                                                 moert::PipelineKind::OneFOneB,
                                                 moert::PipelineKind::Paired};

inline const std::set<std::string> kCaptures[] = {{}, {"moe_router"}};

} // namespace mlir::moe

#endif // MOE_TEST_UNIT_SCHED_JOBS_H
