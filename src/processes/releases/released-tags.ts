/** The process that turns a release into a draft when its tag is deleted, as in Gitea. */
import { changeRelease } from '../../commands/releases/change-release.ts'
import { decideEditRelease } from '../../commands/releases/release.decider.ts'
import { resolveRef } from '../../git/refs/refs.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { type ProcessManager, processManager } from '../process-manager.ts'

const TAGS = 'refs/tags/'

export function releasedTags(services: Services): ProcessManager {
  const { views } = services
  return processManager('released_tags', {
    async RefsUpdated(context, { data: { repoId, refs } }) {
      const deleted = refs.filter(({ ref, to }) => to === null && ref.startsWith(TAGS)).map(({ ref }) => ref)
      if (deleted.length === 0 || (await views.repositories.get(`${repoId}`)) === undefined) return
      const tags = deleted.map((ref) => ref.slice(TAGS.length))
      const found = await views.releases.find({ repoId, draft: false, tag: { $in: tags } })
      for (const { id, tag } of found) {
        // The tag may exist again.
        if ((await resolveRef(gitDirOf(services, repoId), `${TAGS}${tag}`)) !== null) continue
        await changeRelease(services, context, id, 'tag deleted', (state) =>
          state.status === 'there' && state.tag === tag ? decideEditRelease(state, { draft: true }) : [],
        )
      }
    },
  })
}
