/** Maintains one repository, or all in sequence, and reports progress. */
import {
  type RepositoryDocument,
  repositoryKey,
} from '../../projections/models/repositories/repositories.fold.ts'
import { type MaintenanceServices, maintain } from './maintain.ts'

export interface MaintenanceProgress {
  /** OWNER/REPO. */
  repository: string
  step: string
  /** Finished repositories, and all. */
  done: number
  total: number
  /** Disk usage of git, with the last step of a repository. */
  bytes_before?: number
  bytes_after?: number
}

const BATCH = 200

/** Returns the repository with this full name; undefined when it does not exist. */
export const repositoryByFullName = (
  { views }: Pick<MaintenanceServices, 'views'>,
  name: string,
): Promise<RepositoryDocument | undefined> => {
  const [owner = '', ...rest] = name.split('/')
  return views.repositories.findOne({ key: repositoryKey(owner, rest.join('/')) })
}

async function* allRepositories({ views }: Pick<MaintenanceServices, 'views'>) {
  let last = ''
  for (;;) {
    const found = await views.repositories.find({ key: { $gt: last } }, { sort: [['key', 1]], limit: BATCH })
    yield* found
    if (found.length < BATCH) return
    last = found.at(-1)?.key ?? last
  }
}

/** Runs a full maintenance of `one`, or of all repositories. @throws as `maintain` */
export async function* maintainAll(
  services: MaintenanceServices,
  one: RepositoryDocument | undefined,
  signal: AbortSignal,
): AsyncGenerator<MaintenanceProgress> {
  const total = one === undefined ? await services.views.repositories.count({}) : 1
  let done = 0
  for await (const { id, ownerLogin, name } of one === undefined ? allRepositories(services) : [one]) {
    const repository = `${ownerLogin}/${name}`
    const before = await services.diskUsage.get(id)
    let step = 'waiting'
    yield { repository, step, done, total }
    let change: () => void = () => {}
    let maintained: Awaited<ReturnType<typeof maintain>>
    let isDone = false
    const working = maintain(services, id, {
      kind: 'full',
      signal,
      onStep(next) {
        step = next
        change()
      },
    })
      .then((result) => {
        maintained = result
      })
      .finally(() => {
        isDone = true
        change()
      })
    // The caller may stop early: then this promise is not awaited.
    working.catch(() => {})
    for (let reported = step; !isDone; ) {
      await new Promise<void>((resolve) => {
        change = resolve
        if (isDone || reported !== step) resolve()
      })
      if (isDone) break
      reported = step
      yield { repository, step, done, total }
    }
    await working
    done += 1
    const bytes = maintained && {
      ...(before !== undefined && before.measuredAt !== '' && { bytes_before: before.gitBytes }),
      bytes_after: maintained.usage.gitBytes,
    }
    yield { repository, step: 'done', done, total, ...bytes }
  }
}
