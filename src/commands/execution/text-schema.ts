/** The schema of the long texts in requests: bodies, descriptions and messages. */
import { Type } from 'typebox'
import { MAX_TEXT_BYTES } from '../../events/store/append-size.ts'
import { MAX_JSON_BYTES } from '../../http/requests/request-validators.ts'
import type { Services } from '../../services/services.ts'

/** A text of at most `MAX_TEXT_CHARACTERS` and `MAX_TEXT_BYTES`. A longer one gets 422 with the name of the field. */
export const TextOf = ({ config }: Pick<Services, 'config'>) =>
  Type.String({ maxLength: config.maxTextCharacters, [MAX_JSON_BYTES]: MAX_TEXT_BYTES })
