#!/bin/bash
# Queue workers as a Slurm array, each with a GPU, without Ray: sbatch worker-array.sh. Not run.
#SBATCH --job-name=esper-worker
#SBATCH --array=1-4
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:1
#SBATCH --time=02:00:00
# SIGTERM 300 s before the end finishes the running steps and gives the leases back.
#SBATCH --signal=TERM@300
set -eu
: "${ESPER_DATABASE_URL:?set it to the PostgreSQL database of the team}"
exec srun esper worker --once --jobs 1
