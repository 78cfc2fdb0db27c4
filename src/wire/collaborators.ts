import { Type } from 'typebox'

export const CollaboratorParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  collaborator: Type.String(),
})
