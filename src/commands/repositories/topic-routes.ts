/** Changes the topics of a repository: `/repos/{owner}/{repo}/topics`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { repositories } from '../execution/aggregates.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { decideTopics, isTopic, topicOf } from './topics.decider.ts'

const TopicParams = Type.Object({ ...RepositoryParams.properties, topic: Type.String() })
/** Above a repository's limit, since a topic may be repeated. */
const RepoTopicOptions = Type.Object(
  {
    topics: Type.Optional(Type.Array(Type.String({ maxLength: 255 }), { maxItems: 1000 })),
  },
  { title: 'RepoTopicOptions' },
)

export const topicRoutes: Routes = (services) => {
  async function change(
    request: FastifyRequest & { params: Static<typeof RepositoryParams> },
    reply: FastifyReply,
    topicsOf: (topics: readonly string[]) => readonly string[],
  ) {
    const { repository } = await onRepository(services, request, 'admin')
    const context = commandContext(request)
    await repositories.change(services, context, repository.id, 'topics', (state) =>
      decideTopics(state, topicsOf),
    )
    await settled(services, context, reply)
    return reply.code(204).send(null)
  }

  /** @throws Refused (unprocessable) */
  function topicIn({ topic }: Static<typeof TopicParams>): string {
    const wanted = topicOf(topic)
    if (!isTopic(wanted)) throw new Refused(refuse.unprocessable('Topic name is invalid'))
    return wanted
  }

  return async (app) => {
    app.put(
      '/repos/:owner/:repo/topics',
      route('repository', { params: RepositoryParams, body: RepoTopicOptions, response: NO_CONTENT }),
      async (request, reply) =>
        change(request, reply, () =>
          (request.body.topics ?? []).map(topicOf).filter((topic) => topic !== ''),
        ),
    )

    app.put(
      '/repos/:owner/:repo/topics/:topic',
      route('repository', { params: TopicParams, response: NO_CONTENT }),
      async (request, reply) => change(request, reply, (topics) => [...topics, topicIn(request.params)]),
    )

    app.delete(
      '/repos/:owner/:repo/topics/:topic',
      route('repository', { params: TopicParams, response: NO_CONTENT }),
      async (request, reply) =>
        change(request, reply, (topics) => {
          const wanted = topicIn(request.params)
          if (topics.includes(wanted)) return topics.filter((topic) => topic !== wanted)
          throw new Refused(refuse.notFound('the repository does not have this topic'))
        }),
    )
  }
}
