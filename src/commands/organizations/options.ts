/** Body fields of organizations. */
import { Type } from 'typebox'

export const organizationOptions = {
  full_name: Type.Optional(Type.String({ maxLength: 100 })),
  description: Type.Optional(Type.String({ maxLength: 255 })),
  email: Type.Optional(Type.String()),
  location: Type.Optional(Type.String({ maxLength: 50 })),
  website: Type.Optional(Type.String({ maxLength: 255 })),
  visibility: Type.Optional(Type.Enum(['public', 'limited', 'private'])),
}
